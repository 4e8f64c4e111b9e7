// Tables: on a narrow terminal columns shrink or are left out in a fixed order; without a terminal all stay.
#include "ops/cli/terminal/table.h"

#include <gtest/gtest.h>

#include <sstream>

#include "ops/cli/terminal/text_width.h"

namespace holdfast::ops {
namespace {

Table jobs() {
  Table table({"JOB", Column("NAME").shrinks(2, 6).left_out(2), Column("STEP").right(), Column("ETA").right().left_out(1),
               Column("STATE").shrinks(1, 9)});
  table.add({"j1", "训练一个模型", "1/1000", "2m", "running"});
  table.add({"j12", "ablation", "40/60", "-", "waiting (1 of 2 workers are here)"});
  return table;
}

TEST(Table, AlignsItsColumns) {
  EXPECT_EQ(jobs().text(0),
            "JOB  NAME            STEP  ETA  STATE\n"
            "j1   训练一个模型  1/1000   2m  running\n"
            "j12  ablation       40/60    -  waiting (1 of 2 workers are here)\n");
}

TEST(Table, ShrinksColumnsThatMayShrinkThenLeavesColumnsOut) {
  EXPECT_EQ(jobs().text(48),
            "JOB  NAME            STEP  ETA  STATE\n"
            "j1   训练一个模型  1/1000   2m  running\n"
            "j12  ablation       40/60    -  waiting (1 of 2…\n");
  EXPECT_EQ(jobs().text(35),
            "JOB  NAME      STEP  ETA  STATE\n"
            "j1   训练…   1/1000   2m  running\n"
            "j12  ablat…   40/60    -  waiting …\n")
      << "the state first, to nine columns, then the name";
  EXPECT_EQ(jobs().text(30),
            "JOB  NAME      STEP  STATE\n"
            "j1   训练…   1/1000  running\n"
            "j12  ablat…   40/60  waiting …\n");
  EXPECT_EQ(jobs().text(22),
            "JOB    STEP  STATE\n"
            "j1   1/1000  running\n"
            "j12   40/60  waiting …\n");
}

TEST(Table, NoLineIsWiderThanTheTerminalWhateverItsWidth) {
  for (size_t width = 1; width < 80; ++width) {
    std::istringstream lines(jobs().text(width));
    for (std::string line; std::getline(lines, line);) EXPECT_LE(columns(line), width) << line;
  }
}

TEST(Table, AColumnThatLeavesMakesRoomForThoseThatStay) {
  Table table({Column("A").shrinks(1, 2), Column("B").left_out(1)});
  table.add({"aaaaaa", "bbbbbb"});
  EXPECT_EQ(table.text(0), "A       B\naaaaaa  bbbbbb\n");
  EXPECT_EQ(table.text(10), "A   B\na…  bbbbbb\n");
  EXPECT_EQ(table.text(8), "A\naaaaaa\n");
}

TEST(Table, TheLastCellOfAShortRowSpansTheOtherColumns) {
  Table table({"STEP", "SIZE", "HASH"});
  table.add({"20", "1 MB", "abc"});
  table.add({"40", "unreadable: verify names what is wrong"});
  EXPECT_EQ(table.text(0), "STEP  SIZE  HASH\n20    1 MB  abc\n40    unreadable: verify names what is wrong\n");
  EXPECT_EQ(table.text(20), "STEP  SIZE  HASH\n20    1 MB  abc\n40    unreadable: v…\n");
}

TEST(Table, StylesDoNotCountAsWidthAndAreOnlyWhereColoursAreWanted) {
  Table table({"A", "B"});
  table.add({Cell("good", Style::kGood), "x"});
  EXPECT_EQ(table.text(0), "A     B\ngood  x\n");
  EXPECT_EQ(table.text(0, true), "\033[1mA\033[0m     \033[1mB\033[0m\n\033[32mgood\033[0m  x\n");
}

TEST(Table, ACellCannotSteerTheTerminal) {
  Table table({"A", "B"});
  table.add({"a\033[2J", "b\nc"});
  EXPECT_EQ(table.text(0), "A       B\na^[[2J  b c\n");
}

}  // namespace
}  // namespace holdfast::ops

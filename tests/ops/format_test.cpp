// Numbers and tables as people read them.
#include "ops/cli/format.h"

#include <gtest/gtest.h>

#include <cmath>

namespace holdfast::ops {
namespace {

TEST(Format, Durations) {
  EXPECT_EQ(duration_text(0.0), "0ms");
  EXPECT_EQ(duration_text(0.0499), "50ms");
  EXPECT_EQ(duration_text(0.44), "0.4s");
  EXPECT_EQ(duration_text(9.96), "10s");
  EXPECT_EQ(duration_text(59.6), "1m 00s");
  EXPECT_EQ(duration_text(134), "2m 14s");
  EXPECT_EQ(duration_text(3 * 3600 + 5 * 60), "3h 05m");
  EXPECT_EQ(duration_text(2 * 86400 + 4 * 3600), "2d 04h");
  for (const auto& none :
       {std::optional<double>(), std::optional<double>(NAN), std::optional<double>(INFINITY), std::optional<double>(-1)}) {
    EXPECT_EQ(duration_text(none), "-");
  }
}

TEST(Format, SizesAndCounts) {
  EXPECT_EQ(bytes_text(999), "999 B");
  EXPECT_EQ(bytes_text(120.6e6), "120.6 MB");
  EXPECT_EQ(bytes_text(2e15), "2000.0 TB");
  EXPECT_EQ(count_text(30142848), "30,142,848");
  EXPECT_EQ(count_text(-1000), "-1,000");
  EXPECT_EQ(count_text(999), "999");
  EXPECT_EQ(rate_text(10240.4), "10,240 tokens/s");
  EXPECT_EQ(loss_text(std::nullopt), "-");
  EXPECT_EQ(loss_text(std::numeric_limits<double>::infinity()), "not finite");
  EXPECT_EQ(loss_text(std::nan("")), "not finite");
}

TEST(Format, WideCharactersTakeTwoColumns) {
  EXPECT_EQ(columns("abc"), 3U);
  EXPECT_EQ(columns("训练"), 4U);
  EXPECT_EQ(columns("é…"), 2U);
  EXPECT_EQ(columns("\xff\xe4"), 2U) << "broken text has a width, too";
  EXPECT_EQ(cut_to("abcdef", 4), "abc…");
  EXPECT_EQ(cut_to("训练任务", 5), "训练…");
  EXPECT_EQ(cut_to("abc", 3), "abc");
  EXPECT_EQ(cut_to("abc", 0), "");
}

TEST(Format, ATableAlignsItsColumnsAndFitsItsWidth) {
  Table table({"JOB", "NAME", "STATE"});
  table.add({"j1", "训练", "running"});
  table.add({"j12", "b", "waiting (1 of 2 workers are here)"});
  EXPECT_EQ(table.text(0), "JOB  NAME  STATE\nj1   训练  running\nj12  b     waiting (1 of 2 workers are here)\n");
  EXPECT_EQ(table.text(24), "JOB  NAME  STATE\nj1   训练  running\nj12  b     waiting (1 o…\n");
}

}  // namespace
}  // namespace holdfast::ops

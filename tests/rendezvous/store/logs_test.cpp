// Log lines of workers in the store: numbers, filters, and a note of dropped lines; and other rows that are dropped with time.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/rendezvous/store/engines.h"

namespace holdfast::rendezvous {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using Lines = std::vector<std::string>;

constexpr int64_t kDayMs = 24 * 3600 * 1000;

class LogsTest : public EngineTest {
 protected:
  void open(const Retention& retention = {}) {
    store_ = EngineTest::open(retention);
    store_->begin();
  }
  void log(const std::string& worker, const Lines& texts, const std::string& level = "info", const std::string& job = "j1") {
    std::vector<LogLine> lines;
    for (const std::string& text : texts) lines.push_back({1000, level, text});
    store_->add_logs(job, worker, lines);
  }
  void log_many(int64_t first, int64_t last, const std::string& job = "j1", size_t bytes = 1) {
    Lines texts;
    for (int64_t i = first; i <= last; ++i) texts.push_back(std::to_string(i) + std::string(bytes - 1, '.'));
    log("w1", texts, "info", job);
  }
  Lines read(const LogQuery& query, int64_t limit = 1000) {
    Lines texts;
    for (const LogRow& row : store_->records().logs(query, limit).rows) texts.push_back(row.line.text);
    return texts;
  }
  void job(const std::string& id, int64_t number, int64_t finished_ms) {
    JobRow row;
    row.id = id;
    row.number = number;
    row.spec = "{}";
    row.resume = "[]";
    row.finished_ms = finished_ms;
    store_->save_job(row);
  }
  void forget(int64_t now_ms) {
    for (int calls = 0; store_->forget_old(now_ms); ++calls) ASSERT_LT(calls, 10'000) << "it never ends";
  }
  size_t events(const std::string& of) { return store_->records().events(of, 0, 100'000).size(); }

  std::unique_ptr<JobStore> store_;
};

TEST_P(LogsTest, LinesAreNumberedWithinTheirJob) {
  open();
  log("w1", {"a", "b"});
  log("w1", {"x"}, "info", "j2");
  log("w2", {"c"});
  const LogPage page = store_->records().logs({"j1", 1, "", ""}, 10);
  ASSERT_EQ(page.rows.size(), 2u);
  EXPECT_EQ(page.rows[0].id, 2);
  EXPECT_EQ(page.rows[1].id, 3);
  EXPECT_EQ(page.rows[1].worker, "w2");
  EXPECT_FALSE(page.more);
  EXPECT_EQ(store_->records().logs({"j2", 0, "", ""}, 10).rows[0].id, 1);
  EXPECT_THAT(read({"j9", 0, "", ""}), IsEmpty());
}

TEST_P(LogsTest, PagesJoinWithoutAGapOrARepetition) {
  open();
  log_many(1, 95);
  Lines all;
  int pages = 0;
  for (LogPage page{{}, 0, true}; page.more; ++pages) {
    page = store_->records().logs({"j1", page.read_to, "", ""}, 10);
    for (const LogRow& row : page.rows) all.push_back(row.line.text);
    if (pages < 5) log_many(96 + pages, 96 + pages);  // new lines come between the pages
  }
  ASSERT_EQ(all.size(), 100u);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(all[static_cast<size_t>(i)], std::to_string(i + 1));
}

// A reader of line 100 of a log comes back after a restore of a copy that ends at line 60, and again after a second restore.
TEST_P(LogsTest, AfterARestoreNumbersGoOnAboveThoseThatWereRead) {
  open();
  job("j1", 1, 0);
  job("j2", 2, 0);
  log_many(1, 60);
  store_->skip_ids(1'000'000);
  log_many(61, 70);
  log("w1", {"first"}, "info", "j2");
  EXPECT_EQ(read({"j1", 100, "", ""}).size(), 10u) << "the new ones, and none of those before";
  EXPECT_EQ(read({"j1", 40, "", ""}).size(), 30u);
  EXPECT_EQ(store_->records().logs({"j1", 100, "", ""}, 10).rows[0].id, 1'000'001);
  EXPECT_EQ(store_->records().logs({"j2", 0, "", ""}, 10).rows[0].id, 1'000'001) << "a log that the copy did not know";
  store_->skip_ids(2'000'000);
  log_many(71, 75);
  EXPECT_THAT(read({"j1", 1'000'010, "", ""}), ElementsAre("71", "72", "73", "74", "75"));
  EXPECT_THAT(read({"j1", 1'500'000, "", ""}, 1), ElementsAre("71"));
  EXPECT_EQ(store_->records().logs({"j1", 1'000'010, "", ""}, 10).rows[4].id, 2'000'005);
  EXPECT_THAT(read({"j1", store_->records().before_newest_logs({"j1", 0, "", ""}, 7), "", ""}).front(), "69");
  Lines all;
  for (LogPage page{{}, 0, true}; page.more;) {
    page = store_->records().logs({"j1", page.read_to, "", ""}, 7);
    for (const LogRow& row : page.rows) all.push_back(row.line.text);
  }
  ASSERT_EQ(all.size(), 75u) << "pages join across the gaps";
  EXPECT_EQ(all.back(), "75");
}

TEST_P(LogsTest, LinesThatNeverExistedAreNotCountedAsDropped) {
  open({.log_lines_per_job = 500});
  job("j1", 1, 0);
  log_many(1, 100);
  store_->skip_ids(1'000'000);
  for (int64_t i = 101; i <= 2000; i += 100) log_many(i, i + 99);
  const LogRow word = store_->records().logs({"j1", 0, "", ""}, 10).rows[0];
  const int64_t kept = static_cast<int64_t>(read({"j1", word.id, "", ""}, 10'000).size());
  EXPECT_EQ(word.dropped, 2000 - kept);
  EXPECT_GE(kept, 500);
}

TEST_P(LogsTest, AFilterFindsLinesOfAWorkerAndOfLevels) {
  open();
  log("w1", {"a"});
  log("w2", {"b"}, "warning");
  log("w1", {"c"}, "error");
  log("w1", {"d"});
  const std::string bad = " warning error ";
  EXPECT_THAT(read({"j1", 0, "w1", ""}), ElementsAre("a", "c", "d"));
  EXPECT_THAT(read({"j1", 0, "", bad}), ElementsAre("b", "c"));
  EXPECT_THAT(read({"j1", 0, "w1", bad}), ElementsAre("c"));
  EXPECT_THAT(read({"j1", 0, "w3", ""}), IsEmpty());
  EXPECT_EQ(store_->records().before_newest_logs({"j1", 0, "", ""}, 2), 2);
  EXPECT_EQ(store_->records().before_newest_logs({"j1", 0, "w1", ""}, 2), 2);
  EXPECT_EQ(store_->records().before_newest_logs({"j1", 0, "", bad}, 2), 1);
  EXPECT_EQ(store_->records().before_newest_logs({"j1", 0, "w1", bad}, 2), 0) << "there is one";
}

TEST_P(LogsTest, AFilterThatFewLinesPassIsAskedForInSeveralPages) {
  open();
  log_many(1, 60'000);
  log("w2", {"late"});
  Lines found;
  int pages = 0;
  for (LogPage page{{}, 0, true}; page.more; ++pages) {
    page = store_->records().logs({"j1", page.read_to, "w2", ""}, 10);
    EXPECT_LE(page.looked_at, 5'000);
    EXPECT_EQ(page.rows.empty(), page.more) << "empty ones have more after them";
    for (const LogRow& row : page.rows) found.push_back(row.line.text);
  }
  EXPECT_EQ(pages, 13);
  EXPECT_THAT(found, ElementsAre("late"));
  EXPECT_EQ(store_->records().logs({"j1", 0, "", ""}, 10).looked_at, 10);
}

TEST_P(LogsTest, ALogKeepsItsNewestLinesAndSaysHowManyAreGone) {
  open({.log_lines_per_job = 500});
  for (int64_t i = 1; i < 4000; i += 100) log_many(i, i + 99);
  const LogPage page = store_->records().logs({"j1", 0, "", ""}, 10'000);
  const int64_t gone = page.rows[0].dropped;
  EXPECT_EQ(page.rows[0].id, gone);
  EXPECT_THAT(page.rows[0].line.text, HasSubstr(fmt::format("{} older lines are not kept", gone)));
  EXPECT_EQ(page.rows[1].line.text, std::to_string(gone + 1));
  EXPECT_EQ(page.rows.back().line.text, "4000");
  EXPECT_GE(page.rows.size(), 501u);
  EXPECT_LE(page.rows.size(), 1601u);
  // A reader that had read some of the dropped lines is told the number of the others.
  EXPECT_EQ(store_->records().logs({"j1", gone - 3, "", ""}, 10).rows[0].dropped, 3);
  EXPECT_EQ(store_->records().logs({"j1", gone, "", ""}, 10).rows[0].dropped, 0);
  EXPECT_EQ(
      store_->records().logs({"j1", store_->records().before_newest_logs({"j1", 0, "", ""}, 5), "", ""}, 10).rows[0].line.text,
      "3996");
}

TEST_P(LogsTest, ALogIsBoundedInBytes) {
  open({.log_bytes_per_job = 100'000});
  for (int64_t i = 1; i <= 300; ++i) log_many(i, i, "j1", 1000);
  const LogPage page = store_->records().logs({"j1", 0, "", ""}, 10'000);
  EXPECT_LE(page.rows.size(), 101u);
  EXPECT_GE(page.rows.size(), 90u);
  EXPECT_EQ(page.rows[0].dropped + static_cast<int64_t>(page.rows.size()) - 1, 300);
  log_many(301, 301, "j1", 500'000);
  EXPECT_EQ(store_->records().logs({"j1", 0, "", ""}, 10).rows.back().id, 301) << "the last line stays, whatever it has";
}

TEST_P(LogsTest, AReaderWithANumberBeyondTheNewestGetsTheNewLines) {
  open();
  log_many(1, 5);
  const LogPage page = store_->records().logs({"j1", 1000, "", ""}, 10);
  EXPECT_THAT(page.rows, IsEmpty());
  EXPECT_EQ(page.read_to, 5) << "the database was restored from an older copy";
}

TEST_P(LogsTest, LogsAndAllButTheNewestEventsOfJobsThatEndedLongAgoAreDropped) {
  open();
  const int64_t now = 100 * kDayMs;
  job("j1", 1, now - 31 * kDayMs);
  job("j2", 2, now - 29 * kDayMs);
  job("j3", 3, 0);
  for (const char* id : {"j1", "j2", "j3"}) {
    log_many(1, 4000, id);
    for (int i = 1; i <= 300; ++i) store_->add_event({0, i, id, "", 1, "kind", std::to_string(i), ""});
  }
  forget(now);
  const LogPage gone = store_->records().logs({"j1", 0, "", ""}, 10);
  ASSERT_EQ(gone.rows.size(), 1u);
  EXPECT_EQ(gone.rows[0].dropped, 4000);
  EXPECT_EQ(read({"j2", 0, "", ""}, 10'000).size(), 4000u);
  EXPECT_EQ(events("j1"), 1 + 200u);
  const auto kept = store_->records().events("j1", 0, 1000);
  EXPECT_EQ(kept.front().kind, "events_dropped");
  EXPECT_EQ(kept.front().message, "what came before is not kept any more: only the newest 200 events are");
  EXPECT_EQ(kept[1].message, "101");
  EXPECT_EQ(kept.back().message, "300");
  EXPECT_EQ(events("j2"), 300u);
  EXPECT_EQ(events("j3"), 300u);
  EXPECT_EQ(store_->records().events("j1", kept.front().id, 1).front().message, "101")
      << "who reads on from there has lost nothing";
  forget(now);
  EXPECT_EQ(events("j1"), 1 + 200u);
  store_->add_event({0, 301, "j1", "", 1, "kind", "301", ""});
  forget(now);
  const auto later = store_->records().events("j1", 0, 1000);
  ASSERT_EQ(later.size(), 1 + 200u) << "one word of it, at the newest that went";
  EXPECT_EQ(later.front().kind, "events_dropped");
  EXPECT_EQ(later[1].message, "102");
}

TEST_P(LogsTest, EventsOfALiveJobAndOfTheServiceHaveAMuchLargerBound) {
  open({.events_per_job = 1000});
  job("j1", 1, 0);
  for (const char* id : {"j1", ""}) {
    for (int i = 1; i <= 5000; ++i) store_->add_event({0, i, id, "", 1, "kind", std::to_string(i), ""});
  }
  forget(1);
  EXPECT_EQ(events("j1"), 1 + 1000u);
  EXPECT_EQ(events(""), 2 + 2000u) << "all events: those of the job, and those of none";
  EXPECT_EQ(store_->records().events("j1", 0, 10'000).back().message, "5000");
}

TEST_P(LogsTest, BeyondTheBoundOfAllLogsTheJobsThatEndedFirstLoseTheirs) {
  open({.log_bytes = 2'500'000});
  job("j1", 1, 2000);
  job("j2", 2, 1000);
  job("j3", 3, 0);
  for (const char* id : {"j1", "j2", "j3"}) log_many(1, 10'000, id, 100);
  forget(3000);
  EXPECT_GT(store_->records().logs({"j2", 0, "", ""}, 10).rows[0].dropped, 0);
  EXPECT_EQ(store_->records().logs({"j1", 0, "", ""}, 10).rows[0].dropped, 0);
  EXPECT_EQ(store_->records().logs({"j3", 0, "", ""}, 10).rows[0].dropped, 0);
}

HOLDFAST_ON_EACH_ENGINE(LogsTest);

}  // namespace
}  // namespace holdfast::rendezvous

// Logs and curves through the API: the newest lines, filters, notes about dropped lines, many followers of one log, and a
// job's whole run in a given number of points.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/rendezvous/api/service_harness.h"

namespace holdfast::rendezvous {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using Json = nlohmann::json;

class FeedsTest : public ServiceTest {
 protected:
  void logs_of(const std::string& worker, const std::vector<std::string>& texts, const std::string& level = "info") {
    LogBatch batch;
    batch.incarnation = worker + "-1";
    batch.job = "j1";
    for (const std::string& text : texts) batch.lines.push_back({1000, level, text});
    ASSERT_EQ(ask("POST", "/v1/workers/" + worker + "/logs", batch, {}, "worker-token").status(), 204);
  }
  std::vector<std::string> texts(const std::string& query) {
    std::vector<std::string> found;
    const Json page = ask("GET", "/v1/jobs/j1/logs?" + query).json();
    for (const Json& line : page["logs"]) found.push_back(line["text"]);
    return found;
  }
  std::shared_ptr<CollectingStream> follow(const std::string& target, std::map<std::string, std::string> headers = {}) {
    auto stream = std::make_shared<CollectingStream>();
    const auto answer = send("GET", target, "", std::move(headers));
    service_->turn();
    answer->answer().response->on_stream(stream);
    service_->turn();
    return stream;
  }
  static size_t count(const std::string& text, const std::string& what) {
    size_t times = 0;
    for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++times;
    return times;
  }
};

TEST_F(FeedsTest, TheNewestLinesAreAskedForByNumber) {
  begin_training();
  for (int i = 1; i <= 250; ++i) logs_of("w1", {std::to_string(i)});
  EXPECT_EQ(texts("tail=120").size(), 120u) << "no other limit is meant";
  EXPECT_EQ(texts("tail=120").front(), "131");
  EXPECT_THAT(texts("tail=2"), ElementsAre("249", "250"));
  EXPECT_EQ(texts("tail=1000").size(), 250u);
  EXPECT_EQ(ask("GET", "/v1/jobs/j1/logs?tail=0").status(), 400);
  EXPECT_EQ(ask("GET", "/v1/jobs/j1/logs?tail=x").status(), 400);
  const auto stream = follow("/v1/jobs/j1/logs?follow=1&tail=3");
  EXPECT_EQ(count(stream->text, "event: log"), 3u);
  logs_of("w1", {"251"});
  EXPECT_EQ(count(stream->text, "event: log"), 4u);
  EXPECT_THAT(stream->text, HasSubstr("id: 251\n"));
}

TEST_F(FeedsTest, LinesAreFilteredByWorkerAndByLevel) {
  begin_training();
  logs_of("w1", {"a"});
  logs_of("w2", {"b"}, "warning");
  logs_of("w2", {"c"}, "error");
  EXPECT_THAT(texts("worker=w2"), ElementsAre("b", "c"));
  EXPECT_THAT(texts("level=warn"), ElementsAre("b", "c"));
  EXPECT_THAT(texts("level=error&worker=w2"), ElementsAre("c"));
  EXPECT_THAT(texts("level=info&tail=2"), ElementsAre("b", "c"));
  EXPECT_EQ(ask("GET", "/v1/jobs/j1/logs?level=loud").json()["errors"][0]["field"], "level");
  const auto stream = follow("/v1/jobs/j1/logs?follow=1&level=error");
  logs_of("w1", {"d"});
  logs_of("w1", {"e"}, "critical");
  EXPECT_EQ(count(stream->text, "event: log"), 2u);
  EXPECT_THAT(stream->text, HasSubstr("\"text\":\"e\""));
}

// As after a restore: the reader has ids that this database never gave, and the next ids are lower.
TEST_F(FeedsTest, AReaderWithIdsBeyondTheNewestGetsTheNextRows) {
  begin_training();
  ASSERT_EQ(ask("POST", "/v1/jobs/j1/progress", progress_to(2), {}, "worker-token").status(), 204);
  const std::map<std::string, std::string> beyond{{"last-event-id", "100000"}};
  const auto of_job = follow("/v1/jobs/j1/events?follow=1", beyond), of_all = follow("/v1/events?follow=1", beyond),
             metrics = follow("/v1/jobs/j1/metrics?follow=1", beyond);
  for (const auto& stream : {of_job, of_all, metrics}) EXPECT_EQ(count(stream->text, "event: "), 0u) << stream->text;
  ASSERT_EQ(ask("POST", "/v1/jobs/j1/progress", progress_to(4, 3), {}, "worker-token").status(), 204);
  ASSERT_EQ(ask("POST", "/v1/jobs/j1/checkpoints", record_of(4), {}, "worker-token").status(), 201);
  EXPECT_EQ(count(metrics->text, "event: metric"), 2u);
  for (const auto& stream : {of_job, of_all}) EXPECT_THAT(stream->text, HasSubstr("checkpoint_committed"));
}

TEST_F(FeedsTest, ManyFollowersOfOneLogCostOneRead) {
  begin_training();
  logs_of("w1", {"first"});
  std::vector<std::shared_ptr<CollectingStream>> streams;
  for (int i = 0; i < 64; ++i) streams.push_back(follow("/v1/jobs/j1/logs?follow=1"));
  const int64_t before = watched_->record_reads;
  for (int i = 0; i < 10; ++i) logs_of("w1", {fmt::format("line {}", i)});
  EXPECT_EQ(watched_->record_reads - before, 10);
  for (const auto& stream : streams) {
    EXPECT_EQ(count(stream->text, "event: log"), 11u);
    EXPECT_EQ(stream->text, streams[0]->text);
  }
}

TEST_F(FeedsTest, FollowersThatAreFarBehindTakeTurnsAndMissNothing) {
  begin_training();
  for (int i = 0; i < 8; ++i) logs_of("w1", std::vector<std::string>(500, "x"));
  std::vector<std::shared_ptr<CollectingStream>> streams;
  for (int i = 0; i < 20; ++i) {  // each at another line
    auto stream = std::make_shared<CollectingStream>();
    const auto answer = send("GET", fmt::format("/v1/jobs/j1/logs?follow=1&after={}", i));
    service_->turn();
    answer->answer().response->on_stream(stream);
    streams.push_back(stream);
  }
  const int64_t before = watched_->record_reads;
  service_->turn();
  EXPECT_LE(watched_->record_reads - before, 5) << "requests wait for no more than that";
  for (int turns = 0; turns < 200; ++turns) service_->turn();
  for (int i = 0; i < 20; ++i)
    EXPECT_EQ(count(streams[static_cast<size_t>(i)]->text, "event: log"), 4000u - static_cast<size_t>(i));
}

TEST_F(FeedsTest, RowsThatAFilterLeavesOutCountAsReads) {
  begin_training();
  for (int i = 0; i < 24; ++i) logs_of("w1", std::vector<std::string>(500, "x"));
  std::vector<std::shared_ptr<CollectingStream>> streams;
  for (int i = 0; i < 20; ++i) {  // each at another line
    auto stream = std::make_shared<CollectingStream>();
    const auto answer = send("GET", fmt::format("/v1/jobs/j1/logs?follow=1&level=error&after={}", i));
    service_->turn();
    answer->answer().response->on_stream(stream);
    streams.push_back(stream);
  }
  for (int turns = 0; turns < 5; ++turns) {
    const int64_t before = watched_->record_reads;
    service_->turn();
    EXPECT_LE(watched_->record_reads - before, 2) << "requests wait for no more than that";
  }
  logs_of("w1", {"at last"}, "error");
  for (int turns = 0; turns < 200; ++turns) service_->turn();
  for (const auto& stream : streams) EXPECT_EQ(count(stream->text, "event: log"), 1u);
  std::vector<std::string> found;
  for (std::string token = "page_token="; token != "page_token=null";) {
    const Json page = ask("GET", "/v1/jobs/j1/logs?level=error" + (token == "page_token=" ? "" : "&" + token)).json();
    for (const Json& line : page["logs"]) found.push_back(line["text"]);
    token = "page_token=" + (page["next_page_token"].is_null() ? "null" : page["next_page_token"].get<std::string>());
  }
  EXPECT_THAT(found, ElementsAre("at last"));
}

// As after a turn that failed: the answer was sent, and its stream begins when the service has ended.
TEST_F(FeedsTest, AStreamThatBeginsAfterTheServiceEndedIsClosed) {
  begin_training();
  const auto answer = send("GET", "/v1/jobs/j1/logs?follow=1");
  service_->turn();
  const auto on_stream = answer->answer().response->on_stream;
  service_.reset();
  const auto stream = std::make_shared<CollectingStream>();
  on_stream(stream);
  EXPECT_TRUE(stream->closed);
}

TEST_F(FeedsTest, TheLastWordsOfAProcessReachItsJobsLog) {
  begin_training();
  logs_of("w2", {"the loss is 3"});
  WorkerLost lost;
  lost.incarnation = "w2-1";
  lost.reason = "killed by signal 6 (SIGABRT)";
  lost.last_lines = {"2026-11-22 20:00:00.123 info [w2 77] the loss is 3",
                     "terminate called after throwing an instance of 'X'"};
  ASSERT_EQ(ask("POST", "/v1/workers/lost", lost, {}, "worker-token").status(), 204);
  EXPECT_THAT(texts(""), ElementsAre("the loss is 3", "terminate called after throwing an instance of 'X'"))
      << "what was shipped is not said twice";
  EXPECT_THAT(texts("level=error"), ElementsAre("terminate called after throwing an instance of 'X'"));
  lost.last_lines.assign(51, "x");
  EXPECT_EQ(ask("POST", "/v1/workers/lost", lost, {}, "worker-token").status(), 400);
}

TEST_F(FeedsTest, AWholeRunIsOneAnswer) {
  begin_training();
  for (int64_t first = 1; first <= 1000; first += 100)
    ASSERT_EQ(ask("POST", "/v1/jobs/j1/progress", progress_to(first + 99, first)).status(), 204);
  const Json few = ask("GET", "/v1/jobs/j1/metrics?points=10").json();
  EXPECT_EQ(few["thinned"], true);
  ASSERT_LE(few["metrics"].size(), 10u);
  int64_t steps = 0;
  for (const Json& point : few["metrics"]) steps += point["steps"].get<int64_t>();
  EXPECT_EQ(steps, 1000);
  EXPECT_EQ(few["metrics"].back()["step"], 1000);
  EXPECT_EQ(few["metrics"][0]["world_size"], 2);
  EXPECT_EQ(few["metrics"][0]["loss"], 3.0);
  EXPECT_NEAR(few["metrics"][0]["step_s"].get<double>(), 0.1, 1e-9);
  const Json all = ask("GET", "/v1/jobs/j1/metrics?points=5000").json();
  EXPECT_EQ(all["thinned"], false);
  EXPECT_EQ(all["metrics"].size(), 1000u);
  for (const char* wrong : {"1", "5001", "x", ""})
    EXPECT_EQ(ask("GET", fmt::format("/v1/jobs/j1/metrics?points={}", wrong)).status(), 400) << wrong;
  const Json page = ask("GET", "/v1/jobs/j1/metrics?limit=5").json();
  EXPECT_EQ(page["metrics"].size(), 5u);
  EXPECT_TRUE(page["folded_before_step"].is_null());
  EXPECT_EQ(page["metrics"][0]["world_size"], 2);
}

TEST_F(FeedsTest, PagesOfMetricsSayWhereTheyBegin) {
  begin_training();
  store_->begin();
  for (int64_t step = 1; step <= 21'000;) {
    std::vector<StepRow> rows;
    for (const int64_t end = step + 500; step < end; ++step) {
      StepRow& row = rows.emplace_back();
      row.job = "j1";
      row.generation = 1;
      row.point.step = step;
      row.point.tokens_digest = fmt::format("{:016x}", step);
    }
    store_->add_steps("j1", rows);
  }
  store_->commit();
  const Json page = ask("GET", "/v1/jobs/j1/metrics?limit=5").json();
  EXPECT_GT(page["folded_before_step"].get<int64_t>(), 1);
  EXPECT_EQ(page["metrics"][0]["step"], page["folded_before_step"]);
}

}  // namespace
}  // namespace holdfast::rendezvous

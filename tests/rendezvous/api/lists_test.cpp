// Lists that grow: events, logs, metrics and the ledger, in pages and as streams, and the bounds on their rows.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "rendezvous/text/text_bounds.h"
#include "tests/rendezvous/api/service_harness.h"

namespace holdfast::rendezvous {
namespace {

using testing::Contains;
using testing::HasSubstr;
using Json = nlohmann::json;

class ListsTest : public ServiceTest {
 protected:
  std::shared_ptr<CollectingStream> follow(const std::string& target, std::map<std::string, std::string> headers = {},
                                           bool slow = false) {
    auto stream = std::make_shared<CollectingStream>();
    stream->slow = slow;
    const auto answer = send("GET", target, "", std::move(headers));
    service_->turn();
    EXPECT_EQ(answer->answer().response->content_type, "text/event-stream");
    answer->answer().response->on_stream(stream);
    service_->turn();
    return stream;
  }
  void logs_of_w1(const std::vector<std::string>& texts) {
    LogBatch batch;
    batch.incarnation = "w1-1";
    batch.job = "j1";
    for (const std::string& text : texts) batch.lines.push_back({1000, "info", text});
    ASSERT_EQ(ask("POST", "/v1/workers/w1/logs", batch, {}, "worker-token").status(), 204);
  }
};

TEST_F(ListsTest, StreamsResumeWhereTheyEndedAndCutOffSlowReaders) {
  begin_training();
  const auto all = follow("/v1/jobs/j1/events?follow=1", {}, false);
  EXPECT_THAT(all->text, HasSubstr("event: event\ndata: {"));
  EXPECT_THAT(all->text, HasSubstr("generation_formed"));
  const size_t last_id_at = all->text.rfind("id: ");
  const std::string last_id = all->text.substr(last_id_at + 4, all->text.find('\n', last_id_at) - last_id_at - 4);
  const auto resumed = follow("/v1/jobs/j1/events?follow=1", {{"last-event-id", last_id}}, false);
  const auto slow = follow("/v1/jobs/j1/events?follow=1&after=" + last_id, {}, true);
  EXPECT_EQ(resumed->text, "") << "there is nothing new";
  ask("POST", "/v1/jobs/j1/pause");
  EXPECT_THAT(resumed->text, HasSubstr("pause_asked"));
  EXPECT_THAT(slow->text, HasSubstr("pause_asked"));
  const std::string slow_saw = slow->text;
  passes(16000);
  EXPECT_THAT(resumed->text, HasSubstr(": keep-alive\n\n"));
  EXPECT_EQ(slow->text, slow_saw) << "it was cut off";
  EXPECT_EQ(ask("GET", "/v1/jobs/j1/events?follow=1", nullptr, {{"last-event-id", "x"}}).status(), 400);
  ask("POST", "/v1/jobs/j1/stop");
  for (const char* worker : {"w1", "w2"}) reports(worker, Phase::kPrepared, 1, 3);
  EXPECT_EQ(show()["state"], "cancelled");
  passes(1000);
  EXPECT_FALSE(resumed->closed) << "last lines may be on their way";
  passes(1100);
  EXPECT_TRUE(resumed->closed) << "the job has ended and all was sent";
}

TEST_F(ListsTest, LogsAndEventsOfWorkersAreKept) {
  begin_training();
  LogBatch batch;
  batch.incarnation = "w1-1";
  batch.job = "j1";
  batch.lines = {{1000, "info", "hello"}, {2000, "warn", "world"}};
  EXPECT_EQ(ask("POST", "/v1/workers/w1/logs", batch, {}, "worker-token").status(), 204);
  const Json first = ask("GET", "/v1/jobs/j1/logs?limit=1").json();
  EXPECT_EQ(first["logs"][0]["text"], "hello");
  const Json second = ask("GET", "/v1/jobs/j1/logs?limit=1&page_token=" + first["next_page_token"].get<std::string>()).json();
  EXPECT_EQ(second["logs"][0]["text"], "world");
  EXPECT_TRUE(second["next_page_token"].is_null());
  WorkerEvent event{"w1", "w1-1", "checkpoint_failed", "the disk is full"};
  EXPECT_EQ(ask("POST", "/v1/jobs/j1/events", event, {}, "worker-token").status(), 204);
  EXPECT_THAT(event_kinds(), Contains("checkpoint_failed"));
}

TEST_F(ListsTest, LinesThatAreSentAgainAreKeptOnce) {
  begin_training();
  const auto sends = [&](int64_t number, const std::string& text, const std::string& worker = "w1") {
    LogBatch batch{worker + "-1", "j1", {{1000, "info", text}}, number};
    ASSERT_EQ(ask("POST", "/v1/workers/" + worker + "/logs", batch, {}, "worker-token").status(), 204);
  };
  sends(1, "a");
  sends(1, "a");
  sends(1, "of another", "w2");
  restart();  // the lines were committed, and the answer was lost
  sends(1, "a");
  sends(2, "b");
  sends(0, "c");
  sends(0, "c");
  std::vector<std::string> texts;
  const Json page = ask("GET", "/v1/jobs/j1/logs").json();
  for (const Json& line : page["logs"]) texts.push_back(line["text"]);
  EXPECT_EQ(texts, (std::vector<std::string>{"a", "of another", "b", "c", "c"})) << "an older worker numbers none";
  arrives("w1", 2);  // a new process begins its numbers again
  LogBatch batch{"w1-2", "j1", {{1000, "info", "d"}}, 1};
  ASSERT_EQ(ask("POST", "/v1/workers/w1/logs", batch, {}, "worker-token").status(), 204);
  EXPECT_EQ(ask("GET", "/v1/jobs/j1/logs").json()["logs"].size(), 6u);
}

TEST_F(ListsTest, AFollowerThatIsFarBehindIsFedInChunksThatItsBufferHolds) {
  begin_training();
  for (int i = 0; i < 4; ++i) logs_of_w1(std::vector<std::string>(100, std::string(10'000, 'x')));
  const auto stream = follow("/v1/jobs/j1/logs?follow=1");
  size_t before = 0, longest = 0, chunks = 0;
  for (; stream->text.size() > before; ++chunks) {
    longest = std::max(longest, stream->text.size() - before);
    before = stream->text.size();
    service_->turn();
  }
  EXPECT_GT(chunks, 10u);
  EXPECT_LT(longest, size_t{300} << 10);
  size_t lines = 0;
  for (size_t at = stream->text.find("event: log"); at != std::string::npos; at = stream->text.find("event: log", at + 1))
    ++lines;
  EXPECT_EQ(lines, 400u) << "and all of it comes";
}

TEST_F(ListsTest, TextsOfWorkersAreCutWhereACharacterBegins) {
  begin_training();
  logs_of_w1({std::string(kLogTextBytesMax - 1, 'x') + "äöü"});
  const Json log = ask("GET", "/v1/jobs/j1/logs").json()["logs"][0];
  EXPECT_EQ(log["text"], std::string(kLogTextBytesMax - 1, 'x') + " … (6 more bytes were cut off)");
  const WorkerEvent event{"w1", "w1-1", "checkpoint_failed", std::string(100'000, 'y')};
  EXPECT_EQ(ask("POST", "/v1/jobs/j1/events", event, {}, "worker-token").status(), 204);
  const Json events = ask("GET", "/v1/jobs/j1/events?limit=1000").json()["events"];
  EXPECT_LT(events.back()["message"].get<std::string>().size(), kEventTextBytesMax + 100);
  EXPECT_EQ(shortened("short", 5), "short");
  EXPECT_EQ(shortened(std::string(10, '\x80'), 5).substr(0, 2), "\x80\x80") << "what is no UTF-8 is cut all the same";
}

TEST_F(ListsTest, TheLedgerComesInPagesOfSteps) {
  begin_training();
  for (int64_t step = 1; step <= 90; step += 10)
    ASSERT_EQ(ask("POST", "/v1/jobs/j1/progress", progress_to(step + 9, step)).status(), 204);
  const Json whole = ask("GET", "/v1/jobs/j1/ledger").json();
  EXPECT_TRUE(whole["next_page_token"].is_null());
  EXPECT_EQ(whole["step"], 90);
  EXPECT_EQ(whole["generation"], 1);
  Json rows = Json::array(), steps = Json::array();
  std::string token;
  int pages = 0;
  do {
    const Json page = ask("GET", "/v1/jobs/j1/ledger?limit=40" + (token.empty() ? "" : "&page_token=" + token)).json();
    rows.insert(rows.end(), page["rows"].begin(), page["rows"].end());
    steps.insert(steps.end(), page["steps"].begin(), page["steps"].end());
    token = page["next_page_token"].is_null() ? "" : page["next_page_token"].get<std::string>();
    ++pages;
  } while (!token.empty());
  EXPECT_EQ(pages, 3);
  EXPECT_EQ(rows, whole["rows"]);
  EXPECT_EQ(steps, whole["steps"]);
  EXPECT_EQ(steps.size(), 90u);
  EXPECT_EQ(ask("GET", "/v1/jobs/j1/ledger?after=9223372036854775807").json()["rows"], Json::array());
}

TEST_F(ListsTest, ADividedStateIsShownWithItsOwnersWhileItsGenerationTrains) {
  begin_training();
  EXPECT_TRUE(show()["division"].is_null()) << "it is not known yet";
  Progress progress = progress_to(1);
  progress.division = StateDivision{1, 512, 1, {4096, 2048}};
  ASSERT_EQ(ask("POST", "/v1/jobs/j1/progress", progress).status(), 204);
  EXPECT_EQ(show()["division"], (Json{{"copies", 1}, {"copies_wanted", 2}, {"nodes", 1}, {"bytes_to_come", 512}}));
  EXPECT_EQ(show()["workers"][0]["owned_bytes"], 4096);
  progress = progress_to(2);
  progress.division = StateDivision{2, 0, 2, {4096, 4096, 4096}};
  ASSERT_EQ(ask("POST", "/v1/jobs/j1/progress", progress).status(), 204);
  EXPECT_TRUE(show()["division"].is_null()) << "of three workers where there are two: nonsense is not shown";
}

TEST_F(ListsTest, ALossThatIsNotFiniteIsShownAndKept) {
  begin_training();
  Progress progress = progress_to(2);
  progress.points[0].loss = std::nan("");
  progress.points[1].loss = INFINITY;
  progress.points[1].validation_loss = std::nan("");
  progress.points[0].gradient_norm = std::nan("");
  progress.points[0].refused = true;
  ASSERT_EQ(ask("POST", "/v1/jobs/j1/progress", progress).status(), 204);
  restart();
  EXPECT_EQ(show()["loss"], "inf");
  EXPECT_EQ(show()["validation_loss"], "nan");
  EXPECT_EQ(show()["refused_steps"], 1);
  const Json metrics = ask("GET", "/v1/jobs/j1/metrics").json()["metrics"];
  ASSERT_EQ(metrics.size(), 2u);
  EXPECT_EQ(metrics[0]["loss"], "nan");
  EXPECT_EQ(metrics[0]["refused"], true);
  EXPECT_EQ(metrics[1]["refused"], false);
  EXPECT_TRUE(metrics[0]["validation_loss"].is_null());
  EXPECT_EQ(metrics[1]["loss"], "inf");
  EXPECT_EQ(metrics[1]["validation_loss"], "nan");
}

}  // namespace
}  // namespace holdfast::rendezvous

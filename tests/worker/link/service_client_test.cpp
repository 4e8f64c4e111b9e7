// A worker's messages to a service that comes and goes.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <future>
#include <thread>

#include "tests/worker/link/fake_service.h"
#include "worker/link/outbox.h"
#include "worker/link/progress_reporter.h"
#include "worker/link/rendezvous_client.h"

namespace holdfast::worker {
namespace {

using rendezvous::Directive;
using rendezvous::DirectiveKind;
using rendezvous::HttpRequest;
using rendezvous::Phase;
using std::chrono::milliseconds;

class Client : public ::testing::Test {
 protected:
  ServiceLink& link() {
    if (!link_) {
      LinkOptions options{service.url(), "token", "w1", "i1", milliseconds(5), milliseconds(40)};
      link_ = std::make_unique<ServiceLink>(options, [this](ExitCode code, const std::string&) {
        const std::lock_guard lock(mutex);
        fatal.push_back(code);
        changed.notify_all();
      });
    }
    return *link_;
  }
  static rendezvous::RegisterRequest registration() {
    rendezvous::RegisterRequest request;
    request.name = "w1";
    request.incarnation = "i1";
    return request;
  }
  std::unique_ptr<RendezvousClient> client() {
    return std::make_unique<RendezvousClient>(link(), registration(), [this](const Directive& directive) {
      const std::lock_guard lock(mutex);
      directives.push_back(directive);
      changed.notify_all();
    });
  }
  bool wait_until(const std::function<bool()>& done) {
    std::unique_lock lock(mutex);
    return changed.wait_for(lock, std::chrono::seconds(60), done);
  }
  static Directive directive(DirectiveKind kind, int64_t generation) {
    Directive d;
    d.kind = kind;
    d.job = "j1";
    d.generation = generation;
    return d;
  }
  static rendezvous::WorkerStatus status(Phase phase, int64_t step) {
    rendezvous::WorkerStatus s;
    s.incarnation = "i1";
    s.phase = phase;
    s.step = step;
    return s;
  }

  FakeService service;
  std::unique_ptr<ServiceLink> link_;
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<Directive> directives;
  std::vector<ExitCode> fatal;
};

TEST_F(Client, RegistersFollowsDirectivesAndReportsItsStatus) {
  const auto worker = client();
  ASSERT_TRUE(wait_until([&] { return directives.size() == 1; })) << "the first directive: idle";
  service.set_directive(directive(DirectiveKind::kFence, 3));
  ASSERT_TRUE(wait_until([&] { return directives.size() == 2; }));
  EXPECT_EQ(directives[1].generation, 3);
  worker->publish(status(Phase::kPrepared, 7));
  EXPECT_TRUE(service.wait_for("/status", [](const auto& all) { return !all.empty() && all.back()["phase"] == "prepared"; }));
  EXPECT_EQ(service.received("/v1/workers").front()["incarnation"], "i1");
}

TEST_F(Client, AnswersAtOnceWhileTheDevicesDriverDoesNot) {
  std::promise<void> driver_answers;
  std::atomic<int> asked = 0;
  {
    RendezvousClient worker(
        link(), registration(), [](const Directive&) {},
        [&, answer = driver_answers.get_future().share()] {
          if (++asked > 1) answer.wait();
          rendezvous::DeviceLoad load;
          load.busy = 0.5;
          return load;
        });
    EXPECT_TRUE(service.wait_for("/status", [&](const auto& all) {
      return asked > 1 && !all.empty() && all.back().contains("load") && all.back()["load"]["busy"] == 0.5;
    })) << "what was read last goes with each";
    for (int64_t question = 1; question <= 3; ++question) {
      const size_t before = service.received("/status").size();
      service.set_directive(directive(DirectiveKind::kFence, question));
      EXPECT_TRUE(service.wait_for("/status", before + 1));
    }
    driver_answers.set_value();
  }
}

TEST_F(Client, OutlivesARestartOfTheServiceAndReportsWhatItIsThen) {
  const auto worker = client();
  ASSERT_TRUE(service.wait_for("/status", 1));
  service.go_away();
  worker->publish(status(Phase::kActive, 12));
  service.come_back();
  EXPECT_TRUE(
      service.wait_for("/status", [](const auto& all) { return all.back()["phase"] == "active" && all.back()["step"] == 12; }));
  service.set_directive(directive(DirectiveKind::kYield, 4));
  EXPECT_TRUE(wait_until([&] { return !directives.empty() && directives.back().generation == 4; }));
}

TEST_F(Client, RegistersAgainWhenTheServiceDoesNotKnowIt) {
  const auto worker = client();
  ASSERT_TRUE(service.wait_for("/status", 1));
  service.answer_with([forgotten = true](const HttpRequest& request) mutable -> std::optional<rendezvous::HttpResponse> {
    if (request.path == "/v1/workers") forgotten = false;
    if (forgotten && request.path.find("/v1/workers/w1/") == 0) return FakeService::problem(404, "not_found");
    return std::nullopt;
  });
  EXPECT_TRUE(service.wait_for("/v1/workers", 2));
  EXPECT_EQ(service.received("/v1/workers").back()["incarnation"], "i1") << "under the same incarnation";
  EXPECT_TRUE(fatal.empty());
}

TEST_F(Client, TakesNoWordOfAProxyThatHasLostTheServiceForTheServices) {
  for (const int status_of_proxy : {404, 403, 401, 302}) {
    const auto worker = client();
    const size_t before = service.received("/status").size();
    ASSERT_TRUE(service.wait_for("/status", before + 1));
    service.answer_with([=, left = 8](const HttpRequest&) mutable -> std::optional<rendezvous::HttpResponse> {
      if (left-- > 0) return rendezvous::HttpResponse{status_of_proxy, "<h1>no such route</h1>", "text/html", {}, nullptr};
      return std::nullopt;
    });
    worker->publish(status(Phase::kActive, status_of_proxy));
    EXPECT_TRUE(service.wait_for("/status", [&](const auto& all) { return all.back()["step"] == status_of_proxy; }));
    EXPECT_TRUE(fatal.empty()) << status_of_proxy;
  }
}

TEST_F(Client, IsFencedByAStaleIncarnation) {
  const auto worker = client();
  ASSERT_TRUE(service.wait_for("/status", 1));
  service.answer_with([](const HttpRequest& request) -> std::optional<rendezvous::HttpResponse> {
    if (request.path.ends_with("/status")) return FakeService::problem(409, "stale_incarnation");
    return std::nullopt;
  });
  ASSERT_TRUE(wait_until([&] { return !fatal.empty(); }));
  EXPECT_EQ(fatal.front(), ExitCode::kFenced);
}

TEST_F(Client, NamesTheReasonsNotToTryAgain) {
  const auto verdict = [&](int status, const std::string& code) {
    {
      const std::lock_guard lock(mutex);
      fatal.clear();
    }
    service.answer_with([=](const HttpRequest&) { return FakeService::problem(status, code); });
    const auto worker = client();
    EXPECT_TRUE(wait_until([&] { return !fatal.empty(); })) << status;
    const std::lock_guard lock(mutex);
    return fatal.front();
  };
  EXPECT_EQ(verdict(401, "unauthorized"), ExitCode::kConfiguration);
  EXPECT_EQ(verdict(409, "protocol_version"), ExitCode::kConfiguration);
  EXPECT_EQ(verdict(409, "name_taken"), ExitCode::kNameTaken);
}

TEST_F(Client, KeepsTryingWhileTheServiceIsOverloaded) {
  // A request that is on its way when the test is over is answered, too.
  service.answer_with([refusals = 3](const HttpRequest&) mutable -> std::optional<rendezvous::HttpResponse> {
    if (refusals-- > 0) return FakeService::problem(503, "busy");
    return std::nullopt;
  });
  const auto worker = client();
  EXPECT_TRUE(service.wait_for("/status", 1));
  EXPECT_TRUE(fatal.empty());
}

// --- faults, events, logs

TEST_F(Client, LettersWaitForTheServiceAndFaultsGoFirst) {
  service.go_away();
  {
    Outbox outbox(link());
    outbox.event("j1", "first", "an event");
    outbox.event("j1", "second", "an event");
    rendezvous::FaultReport fault;
    fault.kind = "timeout";
    outbox.fault("j1", fault);
    fault.kind = "gone";
    outbox.fault("j1", fault);
    outbox.log("j1", {1, "info", "a line"});
    service.come_back();
    EXPECT_TRUE(service.wait_for("/events", 2));
    EXPECT_TRUE(service.wait_for("/faults", 2));
    EXPECT_TRUE(service.wait_for("/logs", 1));
  }
  const auto faults = service.received("/faults");
  EXPECT_EQ(faults[0]["worker"], "w1");
  EXPECT_EQ(faults[0]["incarnation"], "i1");
  EXPECT_EQ(faults[0]["kind"], "timeout");
  EXPECT_EQ(faults[1]["kind"], "gone") << "in the order in which they were met";
  EXPECT_EQ(service.received("/events")[1]["kind"], "second");
  // The first event may be on its way already when the fault is written; the second is not.
  const auto paths = service.paths();
  const auto fault = std::ranges::find(paths, "/v1/jobs/j1/faults");
  EXPECT_NE(std::find(fault, paths.end(), "/v1/jobs/j1/events"), paths.end()) << "the fault overtakes the second event";
  EXPECT_EQ(service.received("/logs")[0]["lines"][0]["text"], "a line");
}

TEST_F(Client, ARefusedLetterIsLetGoAndTheNextOneGoesOut) {
  service.answer_with([](const HttpRequest& request) -> std::optional<rendezvous::HttpResponse> {
    if (request.path.ends_with("/faults")) return FakeService::problem(409, "stale_generation");
    return std::nullopt;
  });
  Outbox outbox(link());
  outbox.fault("j1", {});
  outbox.event("j1", "next", "an event");
  EXPECT_TRUE(service.wait_for("/events", 1));
  EXPECT_TRUE(fatal.empty());
}

// Long lines, and those that JSON makes longer still, in several messages of which each is taken; numbered, so that what comes
// again is known.
TEST_F(Client, LogLinesGoInNumberedBatchesThatTheServiceTakes) {
  constexpr size_t kLines = 60;
  service.go_away();  // they wait, and so go together
  Outbox outbox(link());
  for (size_t i = 0; i < kLines; ++i)
    outbox.log("j1", {static_cast<int64_t>(i), "info", std::string(i == 7 ? 2'000'000 : 50'000, i % 2 == 0 ? 'x' : '\x01')});
  service.come_back();
  const auto lines_in = [](const FakeService::Received& all) {
    size_t lines = 0;
    for (const auto& batch : all) lines += batch["lines"].size();
    return lines;
  };
  ASSERT_TRUE(service.wait_for("/logs", [&](const auto& all) { return lines_in(all) >= kLines; }));
  const auto batches = service.received("/logs");
  EXPECT_GT(batches.size(), 10u);
  int64_t number = 0, line = 0;
  for (const auto& batch : batches) {
    EXPECT_LT(batch.dump().size(), size_t{1} << 20);
    EXPECT_EQ(batch["number"], ++number);
    for (const auto& one : batch["lines"]) EXPECT_EQ(one["time_ms"], line++);
  }
  outbox.log("j2", {1, "info", "of the next job"});
  ASSERT_TRUE(service.wait_for("/logs", batches.size() + 1));
  EXPECT_EQ(service.received("/logs").back()["number"], number + 1);
}

// --- progress

rendezvous::StepPoint point(int64_t step) {
  rendezvous::StepPoint p;
  p.step = step;
  p.tokens_digest = "0";
  return p;
}

std::vector<int64_t> steps_in(const FakeService::Received& reports) {
  std::vector<int64_t> steps;
  for (const auto& report : reports) {
    for (const auto& p : report["points"]) steps.push_back(p["step"]);
  }
  return steps;
}

TEST_F(Client, NoCommittedStepIsLostWhileTheServiceIsAway) {
  ProgressReporter reporter(link());
  reporter.begin("j1", 2, true);
  reporter.committed(point(1));
  ASSERT_TRUE(service.wait_for("/progress", 1));
  service.go_away();
  for (int64_t step = 2; step <= 1300; ++step) reporter.committed(point(step));
  service.come_back();
  ASSERT_TRUE(service.wait_for("/progress", [](const auto& all) { return all.back()["step"] == 1300; }));
  // A reply may have been lost with the service: a step can come twice, but never out of order, and none is missing.
  int64_t expected = 1;
  for (const int64_t step : steps_in(service.received("/progress"))) {
    ASSERT_LE(step, expected);
    if (step == expected) ++expected;
  }
  EXPECT_EQ(expected, 1301);
}

TEST_F(Client, StepsOfAGenerationThatIsOverAreReportedByTheNext) {
  service.answer_with([](const HttpRequest& request) -> std::optional<rendezvous::HttpResponse> {
    if (request.path.ends_with("/progress") && nlohmann::json::parse(request.body)["generation"] == 2) {
      return FakeService::problem(409, "stale_generation");
    }
    return std::nullopt;
  });
  ProgressReporter reporter(link());
  reporter.begin("j1", 2, true);
  for (int64_t step = 1; step <= 3; ++step) reporter.committed(point(step));
  ASSERT_TRUE(service.wait_for("/progress", 1));
  reporter.end();
  EXPECT_EQ(reporter.history().points().size(), 3U);
  reporter.begin("j1", 3, true);
  ASSERT_TRUE(
      service.wait_for("/progress", [](const auto& all) { return all.back()["generation"] == 3 && all.back()["step"] == 3; }));
  EXPECT_EQ(service.received("/progress").back()["points"].size(), 3U);
}

TEST_F(Client, ARankThatDoesNotReportKeepsWhatIsNotConfirmed) {
  ProgressReporter reporter(link());
  reporter.begin("j1", 2, false);
  for (int64_t step = 1; step <= 3; ++step) reporter.committed(point(step));
  reporter.acknowledge(2);
  EXPECT_EQ(reporter.history().points().size(), 1U);
  EXPECT_TRUE(service.received("/progress").empty());
}

TEST_F(Client, TheEndOfAJobComesAfterItsSteps) {
  ProgressReporter reporter(link());
  Interrupt interrupt;
  reporter.begin("j1", 2, true);
  for (int64_t step = 1; step <= 700; ++step) reporter.committed(point(step));
  EXPECT_TRUE(reporter.finish(700, "hash", interrupt));
  const auto reports = service.received("/progress");
  EXPECT_EQ(steps_in(reports).size(), 700U);
  EXPECT_EQ(reports.back()["finished"], true);
  EXPECT_EQ(reports.back()["state_hash"], "hash");
  const auto end = std::ranges::find_if(reports, [](const auto& report) { return report["finished"] == true; });
  EXPECT_EQ(steps_in({reports.begin(), end}).size(), 700U - (*end)["points"].size());
}

// A database that is put back from an older copy has lost what its service confirmed.
TEST_F(Client, TheEndOfAJobIsSaidAgainForAsLongAsTheGenerationLasts) {
  ProgressReporter reporter(link());
  Interrupt interrupt;
  reporter.begin("j1", 2, true);
  reporter.committed(point(1));
  ASSERT_TRUE(reporter.finish(1, "hash", interrupt));
  ASSERT_TRUE(service.wait_for("/progress", [](const auto& all) {
    return std::ranges::count_if(all, [](const auto& report) { return report["finished"] == true; }) >= 2;
  }));
  const auto again = service.received("/progress").back();
  EXPECT_EQ(again["step"], 1);
  EXPECT_EQ(again["state_hash"], "hash");
  EXPECT_TRUE(again["points"].empty()) << "they were confirmed";
}

TEST_F(Client, AnInterruptEndsTheWaitForAServiceThatIsAway) {
  service.go_away();
  ProgressReporter reporter(link());
  Interrupt interrupt;
  reporter.begin("j1", 2, true);
  std::jthread fence([&] { interrupt.raise("fenced"); });
  EXPECT_FALSE(reporter.finish(1, "hash", interrupt));
  reporter.end();
}

TEST_F(Client, AWorkerThatLeavesGivesUpTheWaitForAServiceThatIsAway) {
  service.go_away();
  ProgressReporter reporter(link());
  Interrupt interrupt;
  reporter.begin("j1", 2, true);
  int asked = 0;
  EXPECT_FALSE(reporter.finish(1, "hash", interrupt, [&] { return ++asked == 3; }));
  EXPECT_EQ(asked, 3);
  EXPECT_FALSE(interrupt.raised());
  reporter.end();
}

}  // namespace
}  // namespace holdfast::worker

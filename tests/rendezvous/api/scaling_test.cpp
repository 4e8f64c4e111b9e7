// The scale hook by a clock that is set by hand: when it is called, with what, and what is told of it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <chrono>
#include <fstream>
#include <thread>

#include "tests/rendezvous/api/service_queue_harness.h"

namespace holdfast::rendezvous {
namespace {

using testing::HasSubstr;
using testing::Not;

class ScalingTest : public QueueTest {
 protected:
  // A hook that keeps what it was given, a line a call, and then does `more`.
  void hook(const std::string& more = "") {
    scale_hook_.program = folder_ + "/hook";
    std::ofstream(scale_hook_.program) << "#!/bin/sh\ncat >>'" << folder_ << "/calls'\n" << more << "\n";
    chmod(scale_hook_.program.c_str(), 0700);
    restart();
  }
  std::vector<Json> calls() const {
    std::ifstream file(folder_ + "/calls");
    std::vector<Json> all;
    for (std::string line; std::getline(file, line);) all.push_back(Json::parse(line));
    return all;
  }
  // Turns until the program has ended and its outcome has come back.
  void until_ended(int64_t number) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (ask("GET", "/metrics").response->body.find(fmt_count(number)) == std::string::npos) {
      ASSERT_LT(std::chrono::steady_clock::now(), deadline) << "no call " << number;
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
  }
  static std::string fmt_count(int64_t number) {
    return "holdfast_scale_hook_calls_total{outcome=\"ok\"} " + std::to_string(number) + "\n";
  }
};

TEST_F(ScalingTest, AJobThatHasWaitedForAWhileIsToldOfAndAgainAfterThePause) {
  hook();
  const std::string job = submit({{"min_nodes", 2}, {"requires", {{"zone", "b"}}}, {"priority", 3}});
  passes(4900);
  EXPECT_THAT(ask("GET", "/v1/events?limit=1000").response->body, Not(HasSubstr("scale_hook_called")))
      << "a worker may come back by itself";
  passes(200);
  until_ended(1);
  ASSERT_EQ(calls().size(), 1u);
  const Json told = calls()[0];
  EXPECT_EQ(told["missing_workers"], 2);
  EXPECT_EQ(told["idle_workers"], 0);
  EXPECT_EQ(told["jobs"][0]["id"], job);
  EXPECT_EQ(told["jobs"][0]["missing"], 2);
  EXPECT_EQ(told["jobs"][0]["priority"], 3);
  EXPECT_EQ(told["jobs"][0]["requires"], (Json{{"zone", "b"}}));
  passes(29'800);
  EXPECT_EQ(calls().size(), 1u);
  passes(200);
  until_ended(2);
  EXPECT_EQ(calls().size(), 2u) << "while the demand lasts";
  ask("POST", "/v1/jobs/" + job + "/stop");
  passes(60'000);
  submit({{"min_nodes", 2}});
  passes(5100);
  until_ended(3);
  ASSERT_EQ(calls().size(), 3u) << "nobody waited in between";
  EXPECT_EQ(calls()[2]["jobs"].size(), 1u);
}

TEST_F(ScalingTest, WorkersWithoutAJobAreToldOfAfterAWhileAndThoseForOneJobAreNot) {
  hook();
  arrives("w1");
  RegisterRequest own;
  own.name = "w2";
  own.incarnation = "w2-1";
  own.only_job = submit({{"requires", {{"zone", "b"}}}});
  ask("POST", "/v1/jobs/" + own.only_job + "/pause");
  ask("POST", "/v1/workers", own, {}, "worker-token");
  for (int64_t ms = 0; ms < 299'000; ms += 1000) {
    clock_.ms += 1000;
    reports("w1", Phase::kIdle);
    reports("w2", Phase::kIdle);
  }
  EXPECT_THAT(ask("GET", "/v1/events?limit=1000").response->body, Not(HasSubstr("scale_hook_called")));
  clock_.ms += 2500;
  reports("w1", Phase::kIdle);
  reports("w2", Phase::kIdle);
  passes(60);
  until_ended(1);
  ASSERT_EQ(calls().size(), 1u);
  EXPECT_EQ(calls()[0]["idle_workers"], 1);
  EXPECT_EQ(calls()[0]["workers"][0]["id"], "w1");
}

TEST_F(ScalingTest, TheEventsNameEachWorkerWithoutAJobThoughTheirNumberIsTheSame) {
  hook();
  const auto idle = [this](int64_t ms, const std::vector<std::string>& names) {
    for (int64_t passed = 0; passed < ms; passed += 1000) {
      clock_.ms += 1000;
      for (const std::string& name : names) reports(name, Phase::kIdle);
    }
    passes(60);
  };
  arrives("w1");
  idle(5000, {"w1"});
  arrives("w2");
  idle(297'000, {"w1", "w2"});
  until_ended(1);
  idle(35'000,
       {"w2"});  // w1 is silent, and dead when the next call is due: there has been one worker without a job all the time
  until_ended(2);
  const std::string events = ask("GET", "/v1/events?limit=1000").response->body;
  EXPECT_THAT(events, HasSubstr("1 worker has no job: w1"));
  EXPECT_THAT(events, HasSubstr("1 worker has no job: w2"));
}

TEST_F(ScalingTest, ThereAreNoCallsAndNoNumbersWithoutAHook) {
  submit({{"min_nodes", 2}});
  passes(10'000);
  EXPECT_THAT(ask("GET", "/metrics").response->body, Not(HasSubstr("holdfast_scale_hook_calls_total")));
}

}  // namespace
}  // namespace holdfast::rendezvous

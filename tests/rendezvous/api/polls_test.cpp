// Many workers that wait for directives: the counted work for one event, and the workers that are answered.
#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>

#include "rendezvous/process/open_files.h"
#include "tests/rendezvous/api/service_harness.h"

namespace holdfast::rendezvous {
namespace {

using Json = nlohmann::json;

class ServicePollsTest : public ServiceTest {
 protected:
  using Poll = std::shared_ptr<Pending>;

  static std::string name(int number) { return fmt::format("w{}", number); }
  void arrive(int first, int last) {
    for (int i = first; i <= last; ++i) arrives(name(i));
  }
  // A poll that waits, of a worker that has the directive in force.
  Poll parks(const std::string& worker, const std::string& tag, int64_t wait_ms = 25000) {
    Poll poll =
        send("GET", fmt::format("/v1/workers/{0}/directive?incarnation={0}-1&wait_ms={1}&have={2}", worker, wait_ms, tag));
    service_->turn();
    EXPECT_FALSE(poll->there()) << worker;
    return poll;
  }
  static std::string tag_in(const Answer& status) { return status.json()["directive_tag"].get<std::string>(); }
  std::vector<Poll> idle_ones_park(int first, int last) {
    std::vector<Poll> polls;
    for (int i = first; i <= last; ++i) polls.push_back(parks(name(i), tag_in(reports(name(i), Phase::kIdle))));
    return polls;
  }
  static int answered(const std::vector<Poll>& polls) {
    return static_cast<int>(std::ranges::count_if(polls, [](const Poll& poll) { return poll->there(); }));
  }
  static Json spec_for(int workers) {
    Json json = spec();
    json["nodes"] = json["min_nodes"] = json["max_nodes"] = workers;
    return json;
  }
  // Brings `job` to train on two workers, the first of which is w`first`.
  void trains(const std::string& job, int first) {
    arrive(first, first + 1);
    ASSERT_EQ(ask("POST", "/v1/jobs", spec_for(2)).status(), 201);
    for (const int i : {first, first + 1}) reports(name(i), Phase::kPrepared, 0, -1, 1, job);
    for (const int i : {first, first + 1}) reports(name(i), Phase::kActive, 1, 0, 1, job);
    ASSERT_EQ(show(job)["state"], "running");
  }
};

TEST_F(ServicePollsTest, AHeartbeatWakesNoOtherWorkerAndCausesNoNewPlan) {
  arrive(1, 40);
  const std::vector<Poll> polls = idle_ones_park(1, 40);
  const CoordinatorWork before = service_->work();
  EXPECT_EQ(reports("w7", Phase::kIdle).status(), 200);
  EXPECT_EQ(service_->work().directives, before.directives);
  EXPECT_EQ(service_->work().decisions, before.decisions);
  EXPECT_EQ(service_->work().plans, before.plans);
  EXPECT_EQ(answered(polls), 0);
}

TEST_F(ServicePollsTest, TimeAloneCausesNoNewPlanBeforeADeadline) {
  trains("j1", 1);
  ASSERT_EQ(ask("POST", "/v1/jobs", spec_for(4)).status(), 201);
  passes(100);
  const int64_t before = service_->work().plans;
  for (int i = 0; i < 20; ++i) {
    passes(100);
    for (const int worker : {1, 2}) reports(name(worker), Phase::kActive, 1, i);
  }
  EXPECT_EQ(service_->work().plans, before);
  passes(15'000);
  EXPECT_GT(service_->work().plans, before);
}

TEST_F(ServicePollsTest, AHeartbeatOfATrainingWorkerCausesNoWork) {
  trains("j1", 1);
  arrive(3, 30);
  const std::vector<Poll> polls = idle_ones_park(3, 30);
  const Poll neighbour = parks("w2", tag_in(reports("w2", Phase::kActive, 1, 3)));
  reports("w1", Phase::kActive, 1, 3);
  const CoordinatorWork before = service_->work();
  EXPECT_EQ(reports("w1", Phase::kActive, 1, 4).status(), 200);
  EXPECT_EQ(service_->work(), before);
  EXPECT_EQ(answered(polls), 0);
  EXPECT_FALSE(neighbour->there());
}

TEST_F(ServicePollsTest, APollIsLookedAtAloneWhenItComes) {
  arrive(1, 40);
  const std::vector<Poll> polls = idle_ones_park(2, 40);
  const std::string tag = tag_in(reports("w1", Phase::kIdle));
  const CoordinatorWork before = service_->work();
  const Poll poll = parks("w1", tag);
  EXPECT_EQ(service_->work(), before);
}

TEST_F(ServicePollsTest, AJobReachesAllOfItsWorkersInTheTurnInWhichItComes) {
  constexpr int kWorkers = 30;
  arrive(1, kWorkers);
  std::vector<Poll> polls = idle_ones_park(1, kWorkers);
  const CoordinatorWork before = service_->work();
  ASSERT_EQ(ask("POST", "/v1/jobs", spec_for(kWorkers)).status(), 201);
  ASSERT_EQ(answered(polls), kWorkers);
  for (const Poll& poll : polls) EXPECT_EQ(poll->json()["kind"], "prepare");
  EXPECT_EQ(service_->work().directives - before.directives, 2 * kWorkers) << "each once for its tag and once to be sent";

  polls.clear();
  for (int i = 1; i <= kWorkers; ++i) polls.push_back(parks(name(i), tag_in(reports(name(i), Phase::kPreparing))));
  ASSERT_EQ(ask("POST", "/v1/jobs/j1/stop").status(), 202);
  ASSERT_EQ(answered(polls), kWorkers);
  for (const Poll& poll : polls) EXPECT_EQ(poll->json()["kind"], "idle");
}

TEST_F(ServicePollsTest, AnEventOfOneJobDoesNotWakeTheWorkersOfAnother) {
  trains("j1", 1);
  trains("j2", 3);
  std::vector<Poll> mine, others;
  for (const int i : {1, 2}) mine.push_back(parks(name(i), tag_in(reports(name(i), Phase::kActive, 1, 3))));
  for (const int i : {3, 4}) others.push_back(parks(name(i), tag_in(reports(name(i), Phase::kActive, 1, 3, 1, "j2"))));
  const CoordinatorWork before = service_->work();
  ASSERT_EQ(ask("POST", "/v1/jobs/j1/pause").status(), 202);
  ASSERT_EQ(answered(mine), 2);
  for (const Poll& poll : mine) EXPECT_EQ(poll->json()["kind"], "yield");
  EXPECT_EQ(answered(others), 0);
  EXPECT_EQ(service_->work().directives - before.directives, 4) << "each once for its tag and once to be sent";
}

TEST_F(ServicePollsTest, AFaultReachesEveryMemberAndNobodyElse) {
  trains("j1", 1);
  arrive(3, 12);
  const std::vector<Poll> idle = idle_ones_park(3, 12);
  std::vector<Poll> members;
  for (const int i : {1, 2}) members.push_back(parks(name(i), tag_in(reports(name(i), Phase::kActive, 1, 3))));
  FaultReport report;
  report.worker = "w1";
  report.incarnation = "w1-1";
  report.generation = 1;
  report.suspect_rank = 1;
  report.kind = "connection_lost";
  ASSERT_EQ(ask("POST", "/v1/jobs/j1/faults", report).status(), 204);
  ASSERT_EQ(answered(members), 2);
  for (const Poll& poll : members) EXPECT_EQ(poll->json()["kind"], "fence");
  EXPECT_EQ(answered(idle), 0);
}

TEST_F(ServicePollsTest, EachPollEndsInItsOwnTime) {
  arrive(1, 2);
  const Poll first = parks("w1", tag_in(reports("w1", Phase::kIdle)), 400);
  const Poll second = parks("w2", tag_in(reports("w2", Phase::kIdle)), 900);
  passes(399);
  EXPECT_FALSE(first->there());
  passes(1);
  EXPECT_EQ(first->status(), 204);
  EXPECT_FALSE(second->there());
  passes(500);
  EXPECT_EQ(second->status(), 204);
}

TEST_F(ServicePollsTest, AWorkersSecondPollEndsItsFirst) {
  arrive(1, 1);
  const std::string tag = tag_in(reports("w1", Phase::kIdle));
  const Poll first = parks("w1", tag);
  const Poll second = parks("w1", tag);
  EXPECT_EQ(first->status(), 204);
  ASSERT_EQ(ask("POST", "/v1/nodes/w1/drain").status(), 202);
  ASSERT_EQ(second->status(), 200);
  EXPECT_EQ(second->json()["kind"], "exit");
}

TEST_F(ServicePollsTest, APollOfAnEndedIncarnationIsRefusedAtOnce) {
  arrive(1, 20);
  const std::vector<Poll> others = idle_ones_park(2, 20);
  const Poll poll = parks("w1", tag_in(reports("w1", Phase::kIdle)));
  registers("w1", 2);
  ASSERT_EQ(poll->status(), 409);
  EXPECT_EQ(poll->json()["code"], "superseded");
  EXPECT_EQ(answered(others), 0);
}

TEST(OpenFiles, MayBeAsManyAsTheHardLimitAllows) {
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  rlimit low = before;
  low.rlim_cur = std::min<rlim_t>(256, before.rlim_max);
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &low), 0);
  const OpenFiles files = raise_open_files();
  EXPECT_EQ(files.problem, "");
  rlimit after{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &after), 0);
  EXPECT_EQ(after.rlim_cur, before.rlim_max);
  EXPECT_EQ(files.limit, static_cast<int64_t>(after.rlim_cur));
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
}

}  // namespace
}  // namespace holdfast::rendezvous

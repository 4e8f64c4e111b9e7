// `holdfast chaos` as people call it: its refusals, the workers that it spares, and the faults that it brings about.
#include <gmock/gmock.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "ops/cli/chaos/drill.h"
#include "tests/ops/cli/cli_runner.h"
#include "tests/ops/cli/fake_service.h"

namespace holdfast::ops {
namespace {

using Json = nlohmann::json;
using ::testing::HasSubstr;

Json worker(const std::string& id, const std::string& node = this_node(), const std::string& job = "j1", int64_t pid = -1) {
  return {{"id", id}, {"node", node}, {"job", job}, {"state", "alive"}, {"pid", pid}, {"incarnation", "i-" + id}, {"step", 7}};
}

std::string refusal(const PlannedFault& fault, const Json& workers, const Faults& faults, bool spare_none = false) {
  DrillSettings settings;
  settings.job = "j1";
  settings.spare_none = spare_none;
  const auto target = choose_target(fault, workers, settings, faults);
  return target ? "chosen: " + target->worker : target.error();
}

class ChaosTargets : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::temp_directory_path() / ("holdfast-chaos-" + std::to_string(getpid()));
    std::filesystem::create_directory(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  void consent(const std::string& worker) { std::ofstream(path(worker + ".consents")); }
  std::string drills() const { return folder_.string(); }

 private:
  std::filesystem::path folder_;
};

TEST_F(ChaosTargets, AreDrawnFromTheWorkersOfTheJobOnThisNode) {
  const Faults faults("", -1, 1);
  const Json workers = {worker("w2"), worker("w1"), worker("far", "elsewhere"), worker("idle", this_node(), "")};
  EXPECT_EQ(refusal({0, FaultKind::kKill, "", 0, 0}, workers, faults), "chosen: w1");
  EXPECT_EQ(refusal({0, FaultKind::kKill, "", 1, 0}, workers, faults), "chosen: w2");
  EXPECT_EQ(refusal({0, FaultKind::kKill, "", 2, 0}, workers, faults), "chosen: w1");
  EXPECT_EQ(refusal({0, FaultKind::kKill, "w2", 0, 0}, workers, faults), "chosen: w2");
}

TEST_F(ChaosTargets, OnOtherNodesAreLeftOutAndTheReasonSaysWhatToDo) {
  const Faults faults("", -1, 1);
  const Json workers = {worker("far", "elsewhere"), worker("idle", this_node(), "")};
  EXPECT_EQ(refusal({0, FaultKind::kKill, "far", 0, 0}, workers, faults), "far is on elsewhere: run chaos there, too");
  EXPECT_EQ(refusal({0, FaultKind::kKill, "idle", 0, 0}, workers, faults), "idle is not part of j1 now");
  EXPECT_EQ(refusal({0, FaultKind::kKill, "w9", 0, 0}, workers, faults), "there is no worker w9");
  EXPECT_THAT(refusal({0, FaultKind::kKill, "", 0, 0}, workers, faults), HasSubstr("no worker of j1 is on this node"));
}

TEST_F(ChaosTargets, TheOnlyHealthyWorkerIsSparedUnlessAskedForOtherwise) {
  const Faults faults("", -1, 1);
  const Json workers = {worker("w1")};
  EXPECT_THAT(refusal({0, FaultKind::kKill, "", 0, 0}, workers, faults), HasSubstr("w1 is the only healthy worker of j1"));
  EXPECT_EQ(refusal({0, FaultKind::kKill, "", 0, 0}, workers, faults, true), "chosen: w1");
}

TEST_F(ChaosTargets, AreNotHealthyBeforeTheyHoldAState) {
  const Faults faults("", -1, 1);
  Json preparing = worker("w2");
  preparing["step"] = nullptr;
  const Json workers = {worker("w1"), preparing};
  EXPECT_THAT(refusal({0, FaultKind::kKill, "w1", 0, 0}, workers, faults), HasSubstr("w1 is the only healthy worker of j1"));
  EXPECT_EQ(refusal({0, FaultKind::kKill, "w2", 0, 0}, workers, faults), "chosen: w2");
}

TEST_F(ChaosTargets, OfACutHaveConsented) {
  const Faults faults(drills(), -1, 1);
  const Json workers = {worker("w1"), worker("w2")};
  EXPECT_THAT(refusal({0, FaultKind::kCut, "", 0, 6}, workers, faults),
              HasSubstr("no worker of this node consents: start them with --drills"));
  consent("w2");
  EXPECT_EQ(refusal({0, FaultKind::kCut, "", 0, 6}, workers, faults), "chosen: w2");
  EXPECT_THAT(refusal({0, FaultKind::kCut, "w1", 0, 6}, workers, faults),
              HasSubstr("w1 does not consent: start it with --drills"));
}

TEST_F(ChaosTargets, AreNotHitAgainWhileTheySufferFromAnotherFault) {
  Faults faults(drills(), -1, 1);
  ASSERT_TRUE(faults.bring_about(FaultKind::kSlow, {"w1", "i-w1", -1}, 60));
  EXPECT_TRUE(std::filesystem::exists(path("w1.slow")));
  const Json workers = {worker("w1"), worker("w2"), worker("w3")};
  EXPECT_EQ(refusal({0, FaultKind::kKill, "", 0, 0}, workers, faults), "chosen: w2");
  EXPECT_EQ(refusal({0, FaultKind::kKill, "w1", 0, 0}, workers, faults), "w1 still suffers from another fault");
  EXPECT_EQ(faults.let_go_all(), std::vector<std::string>{"w1 is as quick as it was"});
  EXPECT_FALSE(std::filesystem::exists(path("w1.slow")));
}

TEST_F(ChaosTargets, AFileThatNoWorkerTookIsReportedAsWithoutEffect) {
  Faults faults(drills(), -1, 1);
  ASSERT_TRUE(faults.bring_about(FaultKind::kCorrupt, {"w1", "i-w1", -1}, 0));
  EXPECT_TRUE(faults.let_go_due().empty()) << "it may take a while until something is sent";
  EXPECT_TRUE(faults.is_held("w1"));
  EXPECT_EQ(faults.let_go_all(), std::vector<std::string>{"w1 sent nothing that could be corrupted"});
  ASSERT_TRUE(faults.bring_about(FaultKind::kCorrupt, {"w1", "i-w1", -1}, 0));
  std::filesystem::remove(path("w1.corrupt"));
  EXPECT_TRUE(faults.let_go_due().empty());
  EXPECT_FALSE(faults.is_held("w1")) << "it is sent";
}

// The process is this test's child and not a worker: since the service heard of a pid, another process may have got it.
TEST_F(ChaosTargets, AProcessThatIsNotTheWorkerIsLeftAlone) {
  const pid_t child = fork();
  if (child == 0) {
    while (true) pause();
  }
  Faults faults("", child, 1);
  for (const FaultKind kind : {FaultKind::kKill, FaultKind::kFreeze}) {
    const auto done = faults.bring_about(kind, {"w1", "i-w1", child}, 6);
    ASSERT_FALSE(done);
    EXPECT_THAT(done.error(), HasSubstr("is not the worker's that the service speaks of, and is left alone"));
  }
  EXPECT_THAT(faults.bring_about(FaultKind::kServiceKill, {}, 0).error(),
              HasSubstr("is no `holdfast serve`, and is left alone"));
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, WNOHANG | WUNTRACED), 0) << "it goes on";
  kill(child, SIGKILL);
  waitpid(child, &status, 0);
  EXPECT_THAT(faults.bring_about(FaultKind::kKill, {"w1", "i-w1", child}, 0).error(), HasSubstr("there is no process"));
}

class ChaosCommand : public ::testing::Test {
 protected:
  Said chaos(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {"chaos", "j1", "--server", service.url(), "--token", "t"});
    return holdfast(arguments);
  }
  FakeService service;
};

TEST_F(ChaosCommand, AsksBeforeItHarms) {
  service.answer("GET /v1/jobs/j1", {{"id", "j1"}, {"state", "running"}});
  service.answer("GET /v1/nodes", {{"nodes", {worker("w1"), worker("w2")}}});
  const Said said = chaos({"--faults", "kill"});
  EXPECT_EQ(said.exit_code, kBadInput);
  EXPECT_THAT(said.err, HasSubstr("chaos harms running processes: give --yes, or run it at a terminal and answer"));
}

TEST_F(ChaosCommand, RefusesRequestsThatItCannotCarryOut) {
  service.answer("GET /v1/jobs/j1", {{"id", "j1"}, {"state", "succeeded"}});
  EXPECT_THAT(chaos({"--faults", "kill", "--yes"}).err, HasSubstr("j1 is succeeded: a drill needs a job that runs"));
  EXPECT_THAT(chaos({"--yes"}).err, HasSubstr("say which faults: --faults kill,freeze or --script FILE"));
  EXPECT_THAT(chaos({"--yes", "--faults", "kill", "--every", "often"}).err, HasSubstr("--every: \"often\" is no duration"));
  EXPECT_THAT(chaos({"--yes", "--script", "/no/such/file"}).err, HasSubstr("--script: cannot read /no/such/file"));
  EXPECT_THAT(chaos({"--yes", "--faults", "kill", "--expect_hash", "aa", "--reference", "j2"}).err,
              HasSubstr("both say which hash is expected: give one"));
  const Said cut = chaos({"--yes", "--faults", "cut", "--every", "1s"});
  EXPECT_EQ(cut.exit_code, kBadInput);
  EXPECT_THAT(cut.err, HasSubstr("cut needs the workers' consent: start them with --drills DIR, and give the same DIR here"));
  EXPECT_THAT(chaos({"--yes", "--faults", "kill", "--drills", "/no/such/folder"}).err, HasSubstr("--drills: /no/such/folder"));
}

TEST_F(ChaosCommand, LeavesOutWorkersOnOtherNodesAndReportsThem) {
  service.answer("GET /v1/jobs/j1", {{"id", "j1"}, {"state", "running"}, {"generation", 1}});
  service.answer("GET /v1/nodes", {{"nodes", {worker("far", "elsewhere")}}});
  service.answer("GET /v1/jobs/j1/metrics", {{"metrics", Json::array()}});
  service.answer("GET /v1/jobs/j1/ledger", {{"rows", Json::array()}});
  const Said said = chaos({"--faults", "kill", "--every", "100ms", "--for", "300ms", "--seed", "5", "--yes", "--json"});
  EXPECT_EQ(said.exit_code, kDone) << said.err;
  EXPECT_THAT(said.err, HasSubstr("left alone, on other nodes: far"));
  const auto report = Json::parse(said.out);
  EXPECT_TRUE(report["faults"].empty());
  ASSERT_FALSE(report["skipped"].empty());
  EXPECT_THAT(report["skipped"][0]["reason"], HasSubstr("no worker of j1 is on this node"));
  EXPECT_EQ(report["seed"], 5);
}

}  // namespace
}  // namespace holdfast::ops

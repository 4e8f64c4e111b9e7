#include "worker/drills/fault_points.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

namespace holdfast::worker {
namespace {

TEST(FaultRules, AreReadAsTheyAreDocumented) {
  const auto rules = parse_fault_rules("kill@allreduce:step=7:rank=1:once_file=/tmp/x,slow@step:ms=20");
  ASSERT_TRUE(rules) << rules.error();
  ASSERT_EQ(rules->size(), 2U);
  EXPECT_EQ((*rules)[0].action, FaultRule::Action::kKill);
  EXPECT_EQ((*rules)[0].point, "allreduce");
  EXPECT_EQ((*rules)[0].step, 7);
  EXPECT_EQ((*rules)[0].rank, 1);
  EXPECT_EQ((*rules)[0].once_file, "/tmp/x");
  EXPECT_EQ((*rules)[1].action, FaultRule::Action::kSlow);
  EXPECT_EQ((*rules)[1].ms, 20);
}

TEST(FaultRules, ThatGiveTheMomentAwayOrTellOfItNameAFile) {
  const auto rules = parse_fault_rules("mark@reduce_scatter:pass=3:ms=500:file=/tmp/mark,note@confirmed:file=/tmp/trace");
  ASSERT_TRUE(rules) << rules.error();
  EXPECT_EQ((*rules)[0].action, FaultRule::Action::kMark);
  EXPECT_EQ((*rules)[0].pass, 3);
  EXPECT_EQ((*rules)[0].file, "/tmp/mark");
  EXPECT_EQ((*rules)[1].action, FaultRule::Action::kNote);
  EXPECT_EQ((*rules)[1].file, "/tmp/trace");
}

TEST(FaultRules, NameWhatIsWrongInThem) {
  for (const auto* text : {"", "kill", "explode@step", "kill@nowhere", "kill@step:step=x", "kill@step:colour=red",
                           "kill@step:once_file=", "mark@step", "note@step:ms=3", "kill@step:file=/tmp/x"}) {
    const auto rules = parse_fault_rules(text);
    ASSERT_FALSE(rules) << text;
    EXPECT_NE(rules.error().find("HOLDFAST_FAULT"), std::string::npos);
  }
}

// How a process ends that passes the point at steps 0 to 9 as rank 1.
int end_of_walk(const std::string& text) {
  const pid_t child = fork();
  if (child == 0) {
    arm_fault_points(*parse_fault_rules(text));
    for (int64_t step = 0; step < 10; ++step) fault_point("allreduce", step, 1);
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
}

TEST(FaultPoint, FiresWhereTheRuleSaysAndNowhereElse) {
  EXPECT_EQ(end_of_walk("kill@allreduce:step=7:rank=1"), -SIGKILL);
  EXPECT_EQ(end_of_walk("kill@allreduce:step=7:rank=0"), 0);
  EXPECT_EQ(end_of_walk("kill@allreduce:step=11"), 0);
  EXPECT_EQ(end_of_walk("kill@commit"), 0);
}

TEST(FaultPoint, WithANumberOfPassesFiresAtThatOneAlone) {
  EXPECT_EQ(end_of_walk("kill@allreduce:pass=10"), -SIGKILL);
  EXPECT_EQ(end_of_walk("kill@allreduce:pass=11"), 0);
  EXPECT_EQ(end_of_walk("kill@allreduce:step=3:pass=2"), 0) << "passes are counted where the rest of the rule holds";
}

TEST(FaultPoint, WithinAStepIsOfTheStepAndRankThatItsThreadPassedLast) {
  const pid_t child = fork();
  if (child == 0) {
    arm_fault_points(*parse_fault_rules("kill@reduce_scatter:step=2:rank=1"));
    fault_point("allreduce", 2, 0);
    fault_point_within("reduce_scatter");
    fault_point("allreduce", 2, 1);
    std::thread([] { fault_point_within("reduce_scatter"); }).join();
    fault_point_within("all_gather");
    alarm(10);  // SIGALRM, should the next line not kill
    fault_point_within("reduce_scatter");
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) << status;
}

class FaultPointWithFiles : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = (std::filesystem::temp_directory_path() / "fault-XXXXXX").string();
    folder_ = mkdtemp(name.data());
  }
  void TearDown() override {
    arm_fault_points({});
    std::filesystem::remove_all(folder_);
  }
  std::string path(const char* name) const { return (folder_ / name).string(); }

  std::filesystem::path folder_;
};

TEST_F(FaultPointWithFiles, FiresOnceWhateverIsRestarted) {
  const std::string rule = "kill@allreduce:step=7:once_file=" + path("once");
  EXPECT_EQ(end_of_walk(rule), -SIGKILL);
  EXPECT_EQ(end_of_walk(rule), 0);
}

TEST_F(FaultPointWithFiles, HoldsAMarkedMomentUntilTheFileIsRemoved) {
  arm_fault_points(*parse_fault_rules("mark@allreduce:file=" + path("mark")));
  std::atomic<bool> passed{false};
  std::thread walker([&] {
    fault_point("allreduce", 0, 0);
    passed = true;
  });
  while (!std::filesystem::exists(path("mark"))) std::this_thread::yield();
  EXPECT_FALSE(passed) << "it waits for as long as the file is there";
  std::filesystem::remove(path("mark"));
  walker.join();
  EXPECT_TRUE(passed);
}

TEST_F(FaultPointWithFiles, LetsAMarkedMomentGoWhenNobodyTakesIt) {
  arm_fault_points(*parse_fault_rules("mark@allreduce:ms=1:file=" + path("mark")));
  fault_point("allreduce", 0, 0);
  EXPECT_TRUE(std::filesystem::exists(path("mark")));
}

TEST_F(FaultPointWithFiles, NotesEachPassingOnALineOfItsOwn) {
  arm_fault_points(*parse_fault_rules("note@confirmed:file=" + path("trace")));
  fault_point("confirmed", 3, 1);
  fault_point("commit", 4, 1);
  fault_point("confirmed", 4, 1);
  std::ifstream trace(path("trace"));
  std::string line;
  for (const char* what : {" confirmed 3 1", " confirmed 4 1"}) {
    ASSERT_TRUE(std::getline(trace, line));
    EXPECT_NE(line.find(what), std::string::npos) << line;
    EXPECT_GT(std::stod(line), 1e9) << "seconds since 1970 come first";
  }
  EXPECT_FALSE(std::getline(trace, line)) << line;
}

TEST(FaultPoint, WithAFileToWatchFiresOnlyWhileItIsThere) {
  EXPECT_EQ(end_of_walk("kill@allreduce:while_file=/proc/self/stat"), -SIGKILL);
  EXPECT_EQ(end_of_walk("kill@allreduce:while_file=/proc/self/no-such-file"), 0);
}

}  // namespace
}  // namespace holdfast::worker

#include "worker/fault_points.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

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

TEST(FaultRules, NameWhatIsWrongInThem) {
  for (const auto* text :
       {"", "kill", "explode@step", "kill@nowhere", "kill@step:step=x", "kill@step:colour=red", "kill@step:once_file="}) {
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

TEST(FaultPoint, WithAFileFiresOnceWhateverIsRestarted) {
  std::string name = (std::filesystem::temp_directory_path() / "fault-XXXXXX").string();
  const std::filesystem::path folder = mkdtemp(name.data());
  const std::string rule = "kill@allreduce:step=7:once_file=" + (folder / "once").string();
  EXPECT_EQ(end_of_walk(rule), -SIGKILL);
  EXPECT_EQ(end_of_walk(rule), 0);
  std::filesystem::remove_all(folder);
}

TEST(FaultPoint, WithAFileToWatchFiresOnlyWhileItIsThere) {
  EXPECT_EQ(end_of_walk("kill@allreduce:while_file=/proc/self/stat"), -SIGKILL);
  EXPECT_EQ(end_of_walk("kill@allreduce:while_file=/proc/self/no-such-file"), 0);
}

}  // namespace
}  // namespace holdfast::worker

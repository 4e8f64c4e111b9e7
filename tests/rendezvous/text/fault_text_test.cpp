// The grammar of faults, which both programs share. Each program's own tests are about its words.
#include "rendezvous/text/fault_text.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <string>

namespace holdfast::rendezvous {
namespace {

TEST(FaultText, IsSplitIntoActionPointAndSettings) {
  const auto faults = split_faults("kill@step:n=2:file=/a=b,slow@join");
  ASSERT_EQ(faults.size(), 2U);
  EXPECT_EQ(faults[0].text, "kill@step:n=2:file=/a=b");
  EXPECT_EQ(faults[0].action, "kill");
  EXPECT_EQ(faults[0].point, "step");
  ASSERT_EQ(faults[0].settings.size(), 2U);
  EXPECT_EQ(faults[0].settings[0].key, "n");
  EXPECT_EQ(faults[0].settings[0].value, "2");
  EXPECT_EQ(faults[0].settings[1].text, "file=/a=b");
  EXPECT_EQ(faults[0].settings[1].value, "/a=b");
  EXPECT_EQ(faults[1].action, "slow");
  EXPECT_TRUE(faults[1].settings.empty());
}

TEST(FaultText, OfAnotherFormHasNoPoint) {
  for (const char* text : {"", "kill", "kill@", "kill@step@join"}) EXPECT_EQ(split_faults(text)[0].point, "") << text;
}

TEST(FaultText, AnErrorNamesTheFaultAndTheFileThatDescribesFaults) {
  EXPECT_EQ(split_faults("kill@step:n")[0].error("n needs a value", "a.h"),
            "HOLDFAST_FAULT: in \"kill@step:n\": n needs a value (see a.h)");
}

TEST(FaultText, AFileIsClaimedOnce) {
  const std::string file = testing::TempDir() + "fault_text_once." + std::to_string(getpid());
  EXPECT_TRUE(claim_once_file(file));
  EXPECT_FALSE(claim_once_file(file));
  EXPECT_TRUE(claim_once_file("")) << "none is named: each time";
  EXPECT_TRUE(claim_once_file(""));
  std::filesystem::remove(file);
}

}  // namespace
}  // namespace holdfast::rendezvous

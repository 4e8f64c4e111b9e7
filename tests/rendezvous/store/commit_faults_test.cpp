// Faults at commits: each happens at the commit that its text names.
#include "rendezvous/store/commit_faults.h"

#include <gtest/gtest.h>

namespace holdfast::rendezvous {
namespace {

using When = StoreMoment::When;

TEST(CommitFaults, TheNthCommitOfAKindIsFoundOnItsSideOfTheCommit) {
  auto faults = parse_commit_faults("kill@before_commit:with=generation:n=2,kill@after_commit:n=3:once_file=/drill");
  ASSERT_TRUE(faults.has_value()) << faults.error();
  CommitFaults counted(std::move(*faults));
  const std::set<std::string> generation{"generation", "event"}, step{"step"};
  EXPECT_TRUE(counted.due({When::kBeforeCommit, generation}).empty());
  EXPECT_TRUE(counted.due({When::kWrite, generation}).empty()) << "a write is no commit";
  EXPECT_TRUE(counted.due({When::kBeforeCommit, step}).empty());
  ASSERT_EQ(counted.due({When::kBeforeCommit, generation}).size(), 1u);
  EXPECT_TRUE(counted.due({When::kBeforeCommit, generation}).empty()) << "once";
  EXPECT_TRUE(counted.due({When::kAfterCommit, step}).empty());
  EXPECT_TRUE(counted.due({When::kAfterCommit, step}).empty());
  const auto third = counted.due({When::kAfterCommit, generation});
  ASSERT_EQ(third.size(), 1u);
  EXPECT_EQ(third[0]->once_file, "/drill");
}

TEST(CommitFaults, ATextThatIsNotAFaultIsNamed) {
  const std::pair<std::string, std::string> cases[] = {{"stop@before_commit", "a service takes kill@before_commit"},
                                                       {"kill@step", "a service takes"},
                                                       {"kill@after_commit:n=0", "n must be a whole number from 1 on"},
                                                       {"kill@after_commit:rank=1", "\"rank\" is not with, n or once_file"},
                                                       {"kill@after_commit:with=", "\"with=\" is no key=value"}};
  for (const auto& [text, what] : cases) {
    const auto faults = parse_commit_faults(text);
    ASSERT_FALSE(faults.has_value()) << text;
    EXPECT_NE(faults.error().find(what), std::string::npos) << faults.error();
  }
}

}  // namespace
}  // namespace holdfast::rendezvous

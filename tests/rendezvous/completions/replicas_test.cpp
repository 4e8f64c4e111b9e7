// The models that the replicas of a job are to have, as newer checkpoints come while texts of older ones are written.
#include "rendezvous/completions/replicas.h"

#include <gmock/gmock.h>

namespace holdfast::rendezvous {
namespace {

using testing::ElementsAre;

const std::string kOld = "job:j1@20", kNow = "job:j1@40", kNewest = "job:j1@60";

class ReplicasTest : public ::testing::Test {
 protected:
  void hear(std::vector<std::string> sources) {
    ReplicaReport report{.incarnation = "i", .job = "j2", .texts_max = 8};
    for (std::string& source : sources)
      report.held.push_back({.source = std::move(source), .fingerprint = "f", .block_size = 64, .vocab_size = 256});
    replicas_.hear("w1", report);
    replicas_.tend(
        0, [](const std::string&, const std::string&) { return Replicas::Presence::kStays; }, true);
  }
  void ask(const std::string& source) {
    ASSERT_FALSE(replicas_.texts().submit(
        source, {{{.tokens = {1}, .options = {.max_tokens = 4}}, [](const auto&, TextOutcome) { return true; }}}, 1000));
  }

  Replicas replicas_{1};
};

TEST_F(ReplicasTest, TheNewestComesFirstWhereThereIsRoom) {
  EXPECT_THAT(replicas_.wanted(kNewest), ElementsAre(kNewest));
  hear({kNow});
  EXPECT_THAT(replicas_.wanted(kNewest), ElementsAre(kNewest, kNow)) << "requests are answered with it";
  ask(kNow);
  EXPECT_THAT(replicas_.wanted(kNewest), ElementsAre(kNewest, kNow));
}

TEST_F(ReplicasTest, TheNewestWaitsWhileTwoOthersAreInUse) {
  hear({kOld});
  ask(kOld);
  hear({kOld, kNow});
  EXPECT_THAT(replicas_.wanted(kNow), ElementsAre(kNow, kOld));
  ask(kNow);
  EXPECT_THAT(replicas_.wanted(kNewest), ElementsAre(kOld, kNow)) << "a replica has room for two";
}

}  // namespace
}  // namespace holdfast::rendezvous

// The placement in examples that can be counted by hand.
#include "rendezvous/placement/placement.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/rendezvous/placement/placement_laws.h"

namespace holdfast::rendezvous {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::IsEmpty;

// `chunks` chunks of 100 bytes, a member on each of the nodes.
PlacementQuestion question(int64_t replicas, const std::vector<std::string>& nodes, size_t chunks) {
  PlacementQuestion question{std::vector<int64_t>(chunks, 100), replicas, {}};
  for (const std::string& node : nodes) question.members.push_back({node, 0, {}});
  return question;
}
Placement placed(const PlacementQuestion& question) {
  const auto answer = place(question);
  if (!answer || !std::holds_alternative<Placement>(*answer))
    throw std::runtime_error(answer ? "chunks are lost" : answer.error());
  EXPECT_EQ(broken_promise(question, std::get<Placement>(*answer)), "");
  return std::get<Placement>(*answer);
}
std::string refusal(const PlacementQuestion& question) {
  const auto answer = place(question);
  return answer ? "it is placed" : answer.error();
}
// All copies are made, and what is not owned is dropped.
void carry_out(PlacementQuestion& question, const Placement& placement) {
  for (PlacementMember& member : question.members) member.holds.assign(question.chunk_bytes.size(), false);
  for (size_t chunk = 0; chunk < question.chunk_bytes.size(); ++chunk) {
    for (const int32_t owner : placement.owners_of(chunk)) question.members[static_cast<size_t>(owner)].holds[chunk] = true;
  }
}
PlacementQuestion settled(int64_t replicas, const std::vector<std::string>& nodes, size_t chunks) {
  PlacementQuestion asked = question(replicas, nodes, chunks);
  carry_out(asked, placed(asked));
  return asked;
}
void lose(PlacementQuestion& question, size_t rank) {
  question.members.erase(question.members.begin() + static_cast<std::ptrdiff_t>(rank));
}
// Each to within a chunk or two.
auto about(const std::vector<int64_t>& bytes) {
  std::vector<testing::Matcher<int64_t>> near;
  for (const int64_t each : bytes) near.push_back(testing::AllOf(testing::Ge(each - 200), testing::Le(each + 200)));
  return testing::ElementsAreArray(near);
}
std::vector<int64_t> owned(const PlacementQuestion& question) {
  return PlacementFacts(question, placed(question)).owned;
}

const std::vector<std::string> kFour{"a", "b", "c", "d"};

TEST(Placement, AtAJobsStartAllComesFromASource) {
  const PlacementQuestion asked = question(2, kFour, 600);
  const Placement placement = placed(asked);
  EXPECT_TRUE(placement.from_source);
  EXPECT_THAT(placement.copies, IsEmpty());
  EXPECT_EQ(placement.nodes_min, 2);
  const PlacementFacts facts(asked, placement);
  EXPECT_THAT(facts.owned, Each(30'000));
  EXPECT_THAT(facts.primary, Each(15'000));
}

TEST(Placement, AnyTwoMembersHaveTheirPartInCommon) {
  const Placement placement = placed(question(2, kFour, 600));
  std::map<std::vector<int32_t>, int64_t> pairs;
  for (size_t chunk = 0; chunk < 600; ++chunk) {
    std::vector<int32_t> pair(placement.owners_of(chunk).begin(), placement.owners_of(chunk).end());
    std::ranges::sort(pair);
    ++pairs[pair];
  }
  ASSERT_EQ(pairs.size(), 6u);
  for (const auto& [pair, chunks] : pairs) EXPECT_NEAR(static_cast<double>(chunks), 100, 2) << pair[0] << " and " << pair[1];
}

TEST(Placement, WithNothingChangedNothingMoves) {
  EXPECT_THAT(placed(settled(2, kFour, 600)).copies, IsEmpty());
}

TEST(Placement, ALossIsMadeGoodByAllFromAll) {
  PlacementQuestion asked = settled(2, kFour, 600);
  lose(asked, 1);
  const Placement placement = placed(asked);
  EXPECT_FALSE(placement.from_source);
  EXPECT_EQ(placement.copies.size(), 300u);
  const PlacementFacts facts(asked, placement);
  for (size_t rank = 0; rank < 3; ++rank) {
    EXPECT_NEAR(static_cast<double>(facts.sent[rank]), 10'000, 200) << rank;
    EXPECT_NEAR(static_cast<double>(facts.received[rank]), 10'000, 200) << rank;
  }
}

TEST(Placement, AJoinerReceivesItsShareFromAll) {
  PlacementQuestion asked = settled(2, kFour, 600);
  asked.members.insert(asked.members.begin(), {"e", 0, {}});
  const PlacementFacts facts(asked, placed(asked));
  EXPECT_NEAR(static_cast<double>(facts.received[0]), 24'000, 200);
  EXPECT_EQ(facts.copied, facts.received[0]);
  for (size_t rank = 1; rank < 5; ++rank) EXPECT_NEAR(static_cast<double>(facts.sent[rank]), 6'000, 200) << rank;
}

TEST(Placement, WhereReplicasAreAsManyAsMembersEverybodyOwnsEverything) {
  for (const int64_t replicas : {4, 5, 100}) {
    const Placement placement = placed(question(replicas, kFour, 10));
    EXPECT_EQ(placement.replicas, 4);
    std::vector<int32_t> owners(placement.owners_of(3).begin(), placement.owners_of(3).end());
    std::ranges::sort(owners);
    EXPECT_THAT(owners, ElementsAre(0, 1, 2, 3));
  }
}

TEST(Placement, AReplicatedStateIsShardedWithoutACopy) {
  PlacementQuestion asked = question(2, kFour, 600);
  for (PlacementMember& member : asked.members) member.holds.assign(600, true);
  EXPECT_THAT(placed(asked).copies, IsEmpty());
}

TEST(Placement, TheOwnersOfAChunkAreOnDifferentNodes) {
  // Five members have 2/5 of the bytes each, but those of node a together at most all of them.
  EXPECT_THAT(owned(question(2, {"a", "a", "a", "b", "c"}, 600)), about({20'000, 20'000, 20'000, 30'000, 30'000}));
  EXPECT_EQ(placed(question(2, {"a", "a", "a", "b", "c"}, 600)).nodes_min, 2);
  // And those of two nodes all of them each.
  EXPECT_THAT(owned(question(2, {"a", "a", "a", "b"}, 600)), about({20'000, 20'000, 20'000, 60'000}));
}

TEST(Placement, WithFewerNodesThanReplicasEachNodeHasEachChunk) {
  // Of three copies one is on b, so two are on a.
  const PlacementQuestion asked = question(3, {"a", "a", "a", "a", "b"}, 600);
  EXPECT_THAT(owned(asked), about({30'000, 30'000, 30'000, 30'000, 60'000}));
  EXPECT_EQ(placed(asked).nodes_min, 2);
  EXPECT_EQ(placed(question(2, {"a", "a"}, 600)).nodes_min, 1);
}

TEST(Placement, ANodesDeathLosesNothing) {
  PlacementQuestion asked = settled(2, {"a", "b", "a", "c", "a"}, 600);
  size_t had = 0;
  for (const size_t rank : {0u, 2u, 4u}) had += static_cast<size_t>(std::ranges::count(asked.members[rank].holds, true));
  for (const size_t rank : {4u, 2u, 0u}) lose(asked, rank);
  const Placement placement = placed(asked);
  EXPECT_EQ(placement.copies.size(), had);
}

TEST(Placement, ANewNodeTakesTheCopiesThatLayTogether) {
  PlacementQuestion asked = settled(2, {"a", "a"}, 600);
  asked.members.push_back({"b", 0, {}});
  const Placement placement = placed(asked);
  EXPECT_EQ(placement.copies.size(), 600u);
  EXPECT_THAT(PlacementFacts(asked, placement).owned, about({30'000, 30'000, 60'000}));
}

TEST(Placement, ALimitCountsTwoChunksLowerAndOthersOwnMore) {
  PlacementQuestion asked = question(2, kFour, 600);
  asked.members[0].bytes_max = 12'200;
  EXPECT_THAT(owned(asked), about({12'000, 36'000, 36'000, 36'000}));
  asked.members[0].bytes_max = 100;
  EXPECT_THAT(owned(asked), about({0, 40'000, 40'000, 40'000}));
  asked.members[0].bytes_max = 60'000;  // all bytes: nothing has to be left over
  EXPECT_THAT(owned(asked), Each(30'000));
}

TEST(Placement, LimitsAreEnoughToTheByteOrRefused) {
  PlacementQuestion asked = question(2, kFour, 600);
  for (PlacementMember& member : asked.members) member.bytes_max = 30'200;
  EXPECT_THAT(owned(asked), Each(30'000));
  asked.members[2].bytes_max = 30'199;
  EXPECT_EQ(
      refusal(asked),
      "the members' limits are too low together: 2 copies of 60000 bytes need 120000 bytes, and 4 members can own 119999 (a "
      "limit below 60000 counts 200 bytes lower, two of the largest chunk): raise a limit, lower replicas or add members");
}

TEST(Placement, LimitsThatForbidDifferentNodesForAllChunksAllowThemForMost) {
  // Node b has room for half of the chunks: the others have both copies on a.
  PlacementQuestion asked = question(2, {"a", "a", "b"}, 600);
  asked.members[2].bytes_max = 30'200;
  const Placement placement = placed(asked);
  EXPECT_THAT(PlacementFacts(asked, placement).owned, about({45'000, 45'000, 30'000}));
  EXPECT_EQ(placement.nodes_min, 1);
}

TEST(Placement, AMemberThatMayOwnNothingSends) {
  PlacementQuestion asked = question(1, {"a", "b"}, 10);
  asked.members[0] = {"a", 1, std::vector<bool>(10, true)};
  const PlacementFacts facts(asked, placed(asked));
  EXPECT_THAT(facts.owned, ElementsAre(0, 1000));
  EXPECT_THAT(facts.sent, ElementsAre(1000, 0));
}

TEST(Placement, AMemberThatMayOwnNothingTakesNothingOverThoughItHoldsIt) {
  PlacementQuestion asked = question(1, {"a", "b", "c", "d"}, 6);
  asked.members[0] = {"a", 1, std::vector<bool>(6, true)};
  asked.members[1].holds.assign(6, true);
  EXPECT_EQ(owned(asked)[0], 0);
}

TEST(Placement, ChunksThatNobodyHoldsAreNamed) {
  PlacementQuestion asked = settled(1, kFour, 600);
  std::vector<int32_t> expected;
  for (int32_t chunk = 0; chunk < 600; ++chunk) {
    if (asked.members[2].holds[static_cast<size_t>(chunk)]) expected.push_back(chunk);
  }
  lose(asked, 2);
  const auto answer = place(asked);
  ASSERT_TRUE(answer && std::holds_alternative<LostChunks>(*answer));
  EXPECT_EQ(std::get<LostChunks>(*answer).chunks, expected);
  EXPECT_EQ(expected.size(), 150u);
}

TEST(Placement, AQuestionThatMakesNoSenseIsRefused) {
  EXPECT_EQ(refusal(question(2, kFour, 0)), "there are no chunks to place");
  EXPECT_EQ(refusal(question(2, {}, 1)), "there are no members to own the chunks");
  EXPECT_EQ(refusal(question(0, kFour, 1)), "replicas is 0: at least 1 is expected");
  PlacementQuestion asked = question(2, kFour, 3);
  asked.members[1].holds = {true, true};
  EXPECT_EQ(refusal(asked), "rank 1 tells of 2 chunks, and there are 3");
  asked.members[0].bytes_max = -1;
  EXPECT_EQ(refusal(asked), "rank 0 has a limit of -1 bytes: 0 means none");
  asked.chunk_bytes[2] = 0;
  EXPECT_EQ(refusal(asked), "chunk 2 has 0 bytes: at least 1 is expected");
}

}  // namespace
}  // namespace holdfast::rendezvous

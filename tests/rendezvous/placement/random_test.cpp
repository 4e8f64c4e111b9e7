// Histories of random memberships: joins, losses, nodes' deaths, limits, copies that were cut short. After each change the
// placement keeps its promises, and moves little. The seed of a failure is printed; run one again with --gtest_filter and
// HOLDFAST_SEED=n.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <map>
#include <numeric>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "tests/rendezvous/placement/cheapest_deal.h"
#include "tests/rendezvous/placement/placement_laws.h"

namespace holdfast::rendezvous {
namespace {

constexpr int64_t kWhole = 65'536 * 12;  // bytes of a whole chunk: float32 parameter and two moments an element
constexpr size_t kMembersMax = 16, kChunksMax = 3000;
constexpr size_t kFew = 8;                                // members whose sets can be counted
const char* const kMore = std::getenv("HOLDFAST_SEEDS");  // for a longer run by hand
const unsigned kSeeds = kMore != nullptr ? static_cast<unsigned>(std::atoi(kMore)) : 300;

struct Counts {
  int64_t placed = 0, refused = 0, lost = 0;
  int64_t from_source = 0, limited = 0, doubled = 0;  // among those that were placed
};

class History {
 public:
  History(unsigned seed, size_t chunks_max, Counts& counts) : random_(seed), counts_(counts) {
    const std::vector<size_t> most{8, 60, 400, 3000};
    chunks(1 + pick(std::min(chunks_max, most[pick(most.size())])));
    question_.replicas = static_cast<int64_t>(1 + pick(4));
    nodes_ = std::vector<size_t>{1, 2, 3, 5, 8, 100}[pick(6)];
    limits_ = pick(2) * (1 + pick(4));
    const size_t members = 1 + pick(kMembersMax);
    for (size_t i = 0; i < members; ++i) join();
  }

  size_t pick(size_t below) { return random_() % below; }
  const PlacementQuestion& question() const { return question_; }
  bool has_limits() const { return std::ranges::any_of(question_.members, &PlacementMember::bytes_max); }
  void have_chunks_of_one_size() { std::ranges::fill(question_.chunk_bytes, 1); }
  void be_plain(size_t members_max) {
    members().resize(std::min(members_max, members().size()));
    limits_ = 0;
    nodes_ = 0;
    for (PlacementMember& member : members()) member = {fmt::format("own{}", ++named_), 0, {}};
  }

  // --- changes
  void change() {
    switch (pick(8)) {
      case 0:
      case 1:
        join();
        break;
      case 2:
      case 3:
        lose(pick(members().size()));
        break;
      case 4:
        lose_node();
        break;
      case 5:
        forget();
        break;
      case 6:
        question_.replicas = static_cast<int64_t>(1 + pick(4));
        break;
      default:
        for (size_t i = 1 + pick(3); i-- > 0;) {
          join();
          lose(pick(members().size()));
        }
    }
  }
  // The new member's rank.
  size_t join() {
    const std::string node = nodes_ == 0 ? fmt::format("own{}", ++named_) : fmt::format("n{}", pick(nodes_));
    const size_t rank = pick(members().size() + 1);
    members().insert(members().begin() + static_cast<std::ptrdiff_t>(rank), {node, pick(4) < limits_ ? limit() : 0, {}});
    if (members().size() > kMembersMax) lose(rank == 0 ? 1 : 0);
    return rank;
  }
  void lose(size_t rank) {
    if (members().size() > 1) members().erase(members().begin() + static_cast<std::ptrdiff_t>(rank));
  }
  void lose_node() {
    const std::string node = members()[pick(members().size())].node;
    for (size_t rank = members().size(); rank-- > 0;) {
      if (members()[rank].node == node) lose(rank);
    }
  }
  void forget() { members()[pick(members().size())].holds.clear(); }

  // The placement for what there is now. Where there is none, limits that are too low are lifted, and what is left of a state
  // that is lost in part is given up.
  std::optional<Placement> settle() {
    const auto answer = place(question_);
    if (!answer) {
      check_refusal(answer.error());
      for (PlacementMember& member : members()) member.bytes_max = 0;
      return std::nullopt;
    }
    if (const auto* lost = std::get_if<LostChunks>(&*answer)) {
      check_lost(*lost);
      for (PlacementMember& member : members()) member.holds.clear();
      return std::nullopt;
    }
    const Placement& placement = std::get<Placement>(*answer);
    EXPECT_EQ(broken_promise(question_, placement), "") << text();
    const auto again = place(question_);
    EXPECT_EQ(std::get<Placement>(*again).owners, placement.owners) << "it is not the same twice" << text();
    ++counts_.placed;
    counts_.from_source += placement.from_source ? 1 : 0;
    counts_.limited += has_limits() ? 1 : 0;
    counts_.doubled += placement.nodes_min < placement.replicas ? 1 : 0;
    return placement;
  }

  // The copies are made, and members drop what they do not own; `part`: some are made, and nobody has dropped anything yet.
  void carry_out(const Placement& placement, bool part) {
    std::vector<std::vector<bool>> holds(members().size(), std::vector<bool>(question_.chunk_bytes.size(), false));
    for (size_t rank = 0; rank < members().size(); ++rank) {
      if (part && !members()[rank].holds.empty()) holds[rank] = members()[rank].holds;
    }
    for (size_t chunk = 0; chunk < question_.chunk_bytes.size(); ++chunk) {
      for (const int32_t owner : placement.owners_of(chunk)) {
        if (!part || pick(2) == 0) holds[static_cast<size_t>(owner)][chunk] = true;
      }
    }
    for (size_t rank = 0; rank < members().size(); ++rank) members()[rank].holds = holds[rank];
  }

  std::string text() const {
    std::string text = fmt::format("\n{} chunks, replicas {}", question_.chunk_bytes.size(), question_.replicas);
    for (const PlacementMember& member : question_.members)
      text += fmt::format("\n{} limit {} holds {}", member.node, member.bytes_max, std::ranges::count(member.holds, true));
    return text;
  }

 private:
  std::vector<PlacementMember>& members() { return question_.members; }

  // As a model's: whole chunks, the rest of each tensor, tiny ones of biases and norms. Or all alike, or of any size.
  void chunks(size_t count) {
    const size_t kind = pick(4);
    for (size_t i = 0; i < count; ++i) {
      const size_t which = pick(12);
      int64_t bytes = kWhole;
      if (kind == 0 && which < 5) bytes = 768 * 12 * static_cast<int64_t>(1 + pick(4));
      if (kind == 0 && which == 5) bytes = static_cast<int64_t>(1 + pick(kWhole));
      if (kind == 1) bytes = static_cast<int64_t>(1 + pick(kWhole));
      if (kind == 2 && which > 0) bytes = static_cast<int64_t>(1 + pick(4000));
      question_.chunk_bytes.push_back(bytes);
    }
  }
  int64_t limit() {
    const int64_t total = std::accumulate(question_.chunk_bytes.begin(), question_.chunk_bytes.end(), int64_t{0});
    return 1 + static_cast<int64_t>(random_() % static_cast<uint64_t>(total + total / 8));
  }
  void check_refusal(const std::string& reason) {
    ++counts_.refused;
    Placement none;
    none.replicas = static_cast<int32_t>(std::min<int64_t>(question_.replicas, static_cast<int64_t>(members().size())));
    none.owners.resize(question_.chunk_bytes.size() * static_cast<size_t>(none.replicas));
    const PlacementFacts facts(question_, none);
    const int64_t there = std::accumulate(facts.room.begin(), facts.room.end(), int64_t{0}),
                  needed = none.replicas * facts.total;
    EXPECT_LT(there, needed) << reason << text();
    EXPECT_NE(reason.find(fmt::format("need {} bytes", needed)), std::string::npos) << reason;
    EXPECT_NE(reason.find(fmt::format("can own {} ", there)), std::string::npos) << reason;
  }
  void check_lost(const LostChunks& lost) {
    ++counts_.lost;
    std::vector<int32_t> expected;
    for (size_t chunk = 0; chunk < question_.chunk_bytes.size(); ++chunk) {
      if (std::ranges::none_of(members(), [&](const PlacementMember& m) { return holds(m, chunk); }))
        expected.push_back(static_cast<int32_t>(chunk));
    }
    EXPECT_EQ(lost.chunks, expected);
    EXPECT_LT(expected.size(), question_.chunk_bytes.size()) << "at a start nothing is lost";
  }

  std::mt19937 random_;
  Counts& counts_;
  PlacementQuestion question_;
  size_t nodes_ = 1;   // that members join on; 0: each has its own
  int64_t named_ = 0;  // nodes
  size_t limits_ = 0;  // the share of members that have one, in quarters
};

template <typename Each>
void for_seeds(unsigned seeds, const Each& each) {
  const char* chosen = std::getenv("HOLDFAST_SEED");
  const unsigned first = chosen != nullptr ? static_cast<unsigned>(std::atoi(chosen)) : 1;
  for (unsigned seed = first; seed <= (chosen != nullptr ? first : seeds); ++seed) {
    SCOPED_TRACE(fmt::format("HOLDFAST_SEED={}", seed));
    each(seed);
    if (testing::Test::HasFailure()) return;
  }
}

// Nothing has changed: nothing moves, and the owners are the same.
void expect_rest(History& history, const Placement& before) {
  history.carry_out(before, false);
  const std::optional<Placement> after = history.settle();
  ASSERT_TRUE(after) << history.text();
  EXPECT_EQ(after->copies.size(), 0u) << history.text();
  for (size_t chunk = 0; chunk < history.question().chunk_bytes.size(); ++chunk) {
    const auto one = before.owners_of(chunk), other = after->owners_of(chunk);
    EXPECT_TRUE(std::ranges::is_permutation(one, other)) << "chunk " << chunk << history.text();
  }
}

TEST(RandomPlacements, KeepTheirPromisesThroughAnyHistory) {
  Counts counts;
  for_seeds(kSeeds, [&](unsigned seed) {
    History history(seed, kChunksMax, counts);
    for (int i = 0; i < 12 && !testing::Test::HasFailure(); ++i) {
      const auto placement = history.settle();
      if (placement && history.pick(3) == 0) expect_rest(history, *placement);
      if (placement) history.carry_out(*placement, history.pick(6) == 0);
      history.change();
    }
  });
  if (std::getenv("HOLDFAST_SEED") != nullptr) return;
  EXPECT_GT(counts.placed, 2000) << "else this test shows nothing of it";
  EXPECT_GT(counts.refused, 100);
  EXPECT_GT(counts.lost, 200);
  EXPECT_GT(counts.from_source, 300);
  EXPECT_GT(counts.limited, 500);
  EXPECT_GT(counts.doubled, 500) << "chunks with fewer nodes than owners";
}

TEST(RandomPlacements, CopyNoMoreThanTheCheapestExactDeal) {
  Counts counts;
  int64_t compared = 0, needed = 0, above = 0;
  for_seeds(kSeeds, [&](unsigned seed) {
    History history(seed, 60, counts);
    history.have_chunks_of_one_size();
    for (int i = 0; i < 12 && !testing::Test::HasFailure(); ++i) {
      const auto placement = history.settle();
      const bool judged = placement && !placement->from_source && !history.has_limits();
      const auto fewest = judged ? fewest_copies(history.question()) : std::nullopt;
      if (fewest) {
        const int64_t more = static_cast<int64_t>(placement->copies.size()) - *fewest;
        EXPECT_LE(more, 2) << history.text();
        above += more > 0 ? 1 : 0;
        ++compared;
        needed += *fewest > 0 ? 1 : 0;
      }
      if (placement) history.carry_out(*placement, history.pick(4) == 0);
      history.change();
    }
  });
  if (std::getenv("HOLDFAST_SEED") != nullptr) return;
  EXPECT_GT(compared, 500) << "else this test shows nothing of it";
  EXPECT_GT(needed, 300);
  EXPECT_LE(above, compared / 1000);
}

// The bytes that balance needs beside the missing copies: of any members, their shares less all that they hold and all missing
// copies that they could take (Hall's condition). Members by bits.
int64_t beyond_the_missing(const PlacementQuestion& question, const PlacementFacts& facts, int64_t k) {
  const size_t members = question.members.size();
  std::map<unsigned, int64_t> bytes_held_by;
  for (size_t chunk = 0; chunk < question.chunk_bytes.size(); ++chunk) {
    unsigned holders = 0;
    for (size_t rank = 0; rank < members; ++rank) holders |= holds(question.members[rank], chunk) ? 1u << rank : 0;
    bytes_held_by[holders] += question.chunk_bytes[chunk];
  }
  int64_t beyond = 0;
  for (unsigned some = 1; some < 1u << members; ++some) {
    int64_t lack = k * facts.total * std::popcount(some) / static_cast<int64_t>(members);
    for (const auto& [holders, bytes] : bytes_held_by) {
      const int64_t missing = std::max<int64_t>(0, k - std::popcount(holders));
      lack -= bytes * (std::popcount(some & holders) + std::min<int64_t>(missing, std::popcount(some & ~holders)));
    }
    beyond = std::max(beyond, lack);
  }
  return beyond;
}

// Each member is on a node of its own, without limits.
TEST(RandomPlacements, MoveTheShareOfAJoinerAndTheCopiesThatAreLost) {
  Counts counts;
  for_seeds(kSeeds, [&](unsigned seed) {
    History history(seed, kChunksMax, counts);
    history.be_plain(kFew);
    std::optional<Placement> before = history.settle();
    for (int i = 0; i < 8 && !testing::Test::HasFailure(); ++i) {
      history.carry_out(*before, false);
      const size_t members = history.question().members.size();
      const bool joins = members < 3 || (members < kFew && history.pick(2) == 0);
      const size_t rank = joins ? history.join() : history.pick(members);
      if (!joins) history.lose(rank);
      const bool lives = joins || before->replicas > 1;
      before = history.settle();
      ASSERT_TRUE(before || !lives) << history.text();
      if (!before) before = history.settle();  // all comes from a checkpoint
      ASSERT_TRUE(before) << history.text();
      const PlacementFacts facts(history.question(), *before);
      if (before->from_source) continue;
      if (!joins) {
        EXPECT_LE(facts.copied, facts.missing + beyond_the_missing(history.question(), facts, before->replicas))
            << history.text();
        continue;
      }
      EXPECT_EQ(facts.copied, facts.received[rank]) << "somebody else receives something" << history.text();
      const int64_t share = before->replicas * facts.total / static_cast<int64_t>(members + 1);
      EXPECT_LE(std::abs(facts.received[rank] - share), 2 * facts.largest + 1) << history.text();
    }
  });
}

}  // namespace
}  // namespace holdfast::rendezvous

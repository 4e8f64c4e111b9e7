// One clock from all-gathers: random offsets, latencies that differ by direction, clocks that drift.
#include "rendezvous/profile/alignment.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <random>

namespace holdfast::rendezvous {
namespace {

constexpr int64_t kUs = 1000, kMs = 1000 * kUs, kS = 1000 * kMs;

// Ranks whose clocks differ, and the all-gathers that they make together.
class Ring {
 public:
  explicit Ring(uint32_t seed) : random_(seed) {}

  int64_t between(int64_t least, int64_t most) { return std::uniform_int_distribution<int64_t>(least, most)(random_); }
  void add_rank(int64_t offset_ns, double drift = 0) {
    offsets_.push_back(offset_ns);
    drifts_.push_back(drift);
    gathers_.emplace_back();
  }
  // Every rank begins when it is ready, and ends some latency after the last one began; never before.
  void gather(int64_t number, int64_t true_ns, int64_t ready_within, int64_t latency_most) {
    std::vector<int64_t> begins;
    for (size_t rank = 0; rank < offsets_.size(); ++rank) begins.push_back(true_ns + between(0, ready_within));
    const int64_t last = *std::ranges::max_element(begins);
    for (size_t rank = 0; rank < offsets_.size(); ++rank) {
      gathers_[rank][number] = {by_clock_of(rank, begins[rank]), by_clock_of(rank, last + between(20 * kUs, latency_most))};
    }
  }
  // The offset that the rank's times need for those of rank 0, at this true time.
  int64_t true_offset(size_t rank, int64_t true_ns) const { return by_clock_of(0, true_ns) - by_clock_of(rank, true_ns); }
  const std::vector<Gathers>& gathers() const { return gathers_; }
  std::vector<Gathers>& gathers() { return gathers_; }

 private:
  int64_t by_clock_of(size_t rank, int64_t true_ns) const {
    return true_ns + offsets_[rank] + static_cast<int64_t>(drifts_[rank] * static_cast<double>(true_ns));
  }
  std::mt19937 random_;
  std::vector<int64_t> offsets_;
  std::vector<double> drifts_;
  std::vector<Gathers> gathers_;
};

TEST(Alignment, TheTrueOffsetIsWithinTheStatedErrorForAnyOffsetsAndLatencies) {
  for (uint32_t seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE(seed);
    Ring ring(seed);
    const int64_t ranks = ring.between(2, 9), latency = ring.between(30, 5000) * kUs;
    for (int64_t rank = 0; rank < ranks; ++rank) ring.add_rank(ring.between(-1000 * kS, 1000 * kS));
    for (int64_t number = 0; number < 40; ++number) ring.gather(number, number * 100 * kMs, 50 * kMs, latency);
    const auto clocks = align_clocks(ring.gathers());
    EXPECT_EQ(clocks[0]->offset_ns, 0);
    for (size_t rank = 1; rank < clocks.size(); ++rank) {
      ASSERT_TRUE(clocks[rank]);
      EXPECT_LE(std::llabs(clocks[rank]->offset_ns - ring.true_offset(rank, 0)), clocks[rank]->error_ns);
      EXPECT_LE(clocks[rank]->error_ns, 25 * kMs + latency) << "half of what one all-gather leaves open";
    }
  }
}

TEST(Alignment, LatencyOfOneDirectionAloneStaysWithinTheError) {
  Ring ring(1);
  ring.add_rank(0);
  ring.add_rank(7 * kS);
  // Rank 1 always hears late, rank 0 at once.
  for (int64_t number = 0; number < 40; ++number) {
    const int64_t at = number * 100 * kMs;
    ring.gathers()[0][number] = {at, at + 30 * kUs};
    ring.gathers()[1][number] = {at + 7 * kS, at + 7 * kS + 900 * kUs};
  }
  const auto clock = align_clocks(ring.gathers())[1];
  EXPECT_LE(std::llabs(clock->offset_ns + 7 * kS), clock->error_ns);
  EXPECT_LE(clock->error_ns, 470 * kUs);
}

TEST(Alignment, MoreAllGathersMakeTheErrorSmaller) {
  const auto error_of = [](int64_t gathers) {
    Ring ring(5);
    ring.add_rank(0);
    ring.add_rank(3 * kS);
    for (int64_t number = 0; number < gathers; ++number) ring.gather(number, number * 100 * kMs, 20 * kMs, 300 * kUs);
    return align_clocks(ring.gathers())[1]->error_ns;
  };
  EXPECT_LT(error_of(100), error_of(2));
}

TEST(Alignment, ClocksThatDriftAreOffByNoMoreThanIsSaid) {
  Ring ring(3);
  ring.add_rank(0);
  ring.add_rank(2 * kS, 50e-6);  // 2 ms in 40 s, where a single all-gather leaves a tenth of that
  for (int64_t number = 0; number < 40; ++number) ring.gather(number, number * kS, 50 * kUs, 100 * kUs);
  const auto clock = align_clocks(ring.gathers())[1];
  const int64_t middle = ring.true_offset(1, 20 * kS);
  EXPECT_LE(std::llabs(clock->offset_ns - middle), clock->error_ns);
  EXPECT_LE(clock->error_ns, 2500 * kUs);
}

TEST(Alignment, ARankWithoutACommonAllGatherHasNoOffset) {
  const std::vector<Gathers> ranks{{{1, {0, 10}}}, {{2, {0, 10}}}, {{1, {5, 12}}}};
  const auto clocks = align_clocks(ranks);
  EXPECT_TRUE(clocks[0]);
  EXPECT_FALSE(clocks[1]);
  EXPECT_TRUE(clocks[2]);
}

}  // namespace
}  // namespace holdfast::rendezvous

// The 8-bit reduction: the same bits everywhere, near the sum at once, on it in the long run, and failures that change nothing.
#include "worker/collectives/quantized_reduce.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "tests/worker/collectives/ring_of_threads.h"

namespace holdfast::worker {
namespace {

using Floats = std::vector<float>;

// A rank's numbers: no two ranks or elements have the same.
Floats brought(int rank, size_t elements, unsigned seed = 0) {
  std::minstd_rand random(static_cast<unsigned>(rank) + 100 * seed + 1);
  Floats values;
  for (size_t i = 0; i < elements; ++i) values.push_back(static_cast<float>(random() % 2001) / 1000 - 1);
  return values;
}

// The reductions of all ranks of a job, through as many generations as it takes.
class QuantizedReduce : public testing::TestWithParam<int> {
 protected:
  int world() const { return GetParam(); }
  // One reduction by all ranks, committed; what each has afterwards.
  std::vector<Floats> reduced(std::vector<QuantizedReduction>& reductions, unsigned seed, bool commit = true) {
    std::vector<Floats> sums(reductions.size());
    ranks.options().generation++;
    ranks.run([&](Communicator& ring) {
      const auto rank = static_cast<size_t>(ring.rank());
      const Floats mine = brought(ring.rank(), elements, seed);
      sums[rank].resize(elements);
      const auto done = reductions[rank].reduce(ring, 0, mine, sums[rank]);
      ASSERT_TRUE(done) << done.error().detail;
      ASSERT_EQ(mine, brought(ring.rank(), elements, seed)) << "what a rank brings is only read";
      if (commit) reductions[rank].commit();
    });
    return sums;
  }
  std::vector<QuantizedReduction> fresh() const {
    std::vector<QuantizedReduction> reductions;
    for (int rank = 0; rank < world(); ++rank) reductions.emplace_back(elements);
    return reductions;
  }
  std::vector<double> exact(unsigned seed) const {
    std::vector<double> sum(elements);
    for (int rank = 0; rank < world(); ++rank) {
      const Floats mine = brought(rank, elements, seed);
      for (size_t i = 0; i < elements; ++i) sum[i] += static_cast<double>(mine[i]);
    }
    return sum;
  }
  // Half a quantum of each rank and of the sum; what the errors add to the magnitudes is left room for.
  double bound() const { return world() == 1 ? 1e-6 : 2.2 * world() / 254.0; }

  size_t elements = 5000;  // not whole blocks
  RingOfThreads ranks{GetParam()};
};

INSTANTIATE_TEST_SUITE_P(World, QuantizedReduce, testing::Values(1, 2, 3, 4, 5));

TEST_P(QuantizedReduce, GivesAllRanksTheSameBitsNearTheSum) {
  for (const size_t size : {size_t{1}, size_t{700}, size_t{5000}}) {
    elements = size;
    auto reductions = fresh();
    const auto sums = reduced(reductions, 1);
    const auto expected = exact(1);
    for (const Floats& sum : sums) {
      ASSERT_EQ(sum, sums[0]);
      for (size_t i = 0; i < elements; ++i) ASSERT_NEAR(sum[i], expected[i], bound()) << i << " of " << size;
    }
  }
}

TEST_P(QuantizedReduce, IsNotBiasedInTheLongRun) {
  elements = 1000;
  auto reductions = fresh();
  std::vector<double> total(elements);
  constexpr int kCalls = 200;
  ranks.run([&](Communicator& ring) {
    const auto rank = static_cast<size_t>(ring.rank());
    Floats mine = brought(ring.rank(), elements);
    // Beside an element of 1, these are far below a quantum: without feedback all of them would be lost, always.
    for (size_t i = 1; i < elements; ++i) mine[i] = 1e-3F * (i % 512 == 0 ? 1000.0F : 1.0F);
    mine[0] = 1.0F;
    Floats sum(elements);
    for (int call = 0; call < kCalls; ++call) {
      const auto done = reductions[rank].reduce(ring, 0, mine, sum);
      ASSERT_TRUE(done) << done.error().detail;
      reductions[rank].commit();
      if (rank == 0) {
        for (size_t i = 0; i < elements; ++i) total[i] += static_cast<double>(sum[i]);
      }
    }
  });
  for (size_t i = 0; i < elements; ++i) {
    const double each = i % 512 == 0 ? 1.0 : 1e-3;
    ASSERT_NEAR(total[i] / kCalls, world() * each, bound() / kCalls + 1e-6) << i;
  }
}

TEST_P(QuantizedReduce, AStepThatWasNotAppliedChangesNothing) {
  auto twice = fresh(), once = fresh();
  for (auto* reductions : {&twice, &once}) reduced(*reductions, 1);
  reduced(twice, 2, false);  // all of it went through here, but the step failed somewhere
  reduced(twice, 7, false);
  EXPECT_EQ(reduced(twice, 2), reduced(once, 2));
  EXPECT_EQ(reduced(twice, 3), reduced(once, 3));
}

TEST_P(QuantizedReduce, ACallThatFailsLeavesWhatWasBroughtAndTheErrors) {
  if (world() == 1) return;  // nothing fails there
  auto failing = fresh(), undisturbed = fresh();
  for (auto* reductions : {&failing, &undisturbed}) reduced(*reductions, 1);
  ranks.options().generation++;
  ranks.run([&](Communicator& ring) {
    const auto rank = static_cast<size_t>(ring.rank());
    if (ring.rank() == world() - 1) ring.abort("as if it were gone");
    const Floats mine = brought(ring.rank(), elements, 2);
    Floats sum(elements);
    EXPECT_FALSE(failing[rank].reduce(ring, 0, mine, sum));
    EXPECT_EQ(mine, brought(ring.rank(), elements, 2));
  });
  EXPECT_EQ(reduced(failing, 2), reduced(undisturbed, 2));
}

TEST_P(QuantizedReduce, TakesTheVectorInRanges) {
  auto reductions = fresh();
  const auto expected = exact(4);
  std::vector<Floats> sums(reductions.size(), Floats(elements));
  ranks.run([&](Communicator& ring) {
    const auto rank = static_cast<size_t>(ring.rank());
    const Floats mine = brought(ring.rank(), elements, 4);
    for (const auto& [first, count] : {std::pair<size_t, size_t>{3001, 1999}, {0, 1}, {1, 3000}}) {
      const auto done = reductions[rank].reduce(ring, first, std::span(mine).subspan(first, count),
                                                std::span(sums[rank]).subspan(first, count));
      ASSERT_TRUE(done) << done.error().detail;
    }
    reductions[rank].commit();
  });
  for (const Floats& sum : sums) {
    ASSERT_EQ(sum, sums[0]);
    for (size_t i = 0; i < elements; ++i) ASSERT_NEAR(sum[i], expected[i], bound()) << i;
  }
}

TEST_P(QuantizedReduce, ForgetsItsErrors) {
  auto used = fresh(), unused = fresh();
  reduced(used, 1);
  for (auto& reduction : used) reduction.forget();
  EXPECT_EQ(reduced(used, 2), reduced(unused, 2));
}

TEST_P(QuantizedReduce, WhatIsNotFiniteSpoilsItsBlockForOneCall) {
  if (world() == 1) return;  // as it is there
  auto reductions = fresh();
  std::vector<Floats> sums(reductions.size(), Floats(elements));
  ranks.run([&](Communicator& ring) {
    const auto rank = static_cast<size_t>(ring.rank());
    Floats mine = brought(ring.rank(), elements, 4);
    if (rank == 1) mine[600] = std::numeric_limits<float>::infinity();
    ASSERT_TRUE(reductions[rank].reduce(ring, 0, mine, sums[rank]));
    reductions[rank].commit();
  });
  for (const Floats& sum : sums) {
    EXPECT_TRUE(std::isnan(sum[600]) && std::isnan(sum[512]));
    EXPECT_TRUE(std::isfinite(sum[511]) && std::isfinite(sum[1024]));
  }
  for (const Floats& sum : reduced(reductions, 5)) {
    for (size_t i = 0; i < elements; ++i) ASSERT_TRUE(std::isfinite(sum[i])) << i;
  }
}

}  // namespace
}  // namespace holdfast::worker

// The sums of a step: tried more than once, and reduced by ranges in every wire type.
#include "worker/gradients/accumulator.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/worker/collectives/ring_of_threads.h"
#include "tests/worker/step/ranks_of_threads.h"

namespace holdfast::worker {
namespace {

// A rank with state 0, and what it computes for the step after it.
struct Computing {
  Computing(const rendezvous::JobSpec& spec, const std::string& url, const std::string& name) : rank(spec, url, name) {
    reset_to_initial(*rank.session);
    exponents.assign(rank.session->state->exponents().begin(), rank.session->state->exponents().end());
  }
  GradientAccumulator& gradients() { return *rank.session->gradients; }
  int64_t parameters() const { return rank.session->model->table().total; }
  std::vector<float> buffer() const {
    const float* gradient = rank.session->model->gradients();
    return {gradient, gradient + parameters()};
  }
  // `maxima`: over all ranks.
  std::vector<int32_t> repack(const std::vector<float>& maxima) {
    auto chosen = gradients().rule().for_repack(exponents, maxima);
    if (chosen.empty()) return exponents;
    gradients().repack(chosen);
    return chosen;
  }

  TestRank rank;
  std::vector<int32_t> exponents;
  LocalStep found;
};

rendezvous::JobSpec spec_with(const TestData& data, const std::string& wire) {
  auto spec = tiny_spec(data);
  spec.reduction = wire.starts_with("int") && wire != "int8" ? "exact" : "float";
  spec.wire_dtype = wire;
  return spec;
}

class Sums : public ::testing::TestWithParam<const char*> {
 protected:
  // Means over all microbatches of which only these were computed, in these turns, as one rank alone has them.
  std::vector<float> mean_of(Computing& one, const std::vector<std::vector<int64_t>>& turns) {
    one.gradients().forget();
    for (const auto& turn : turns) one.found = one.gradients().accumulate(0, turn, one.exponents);
    return mean_of_kept(one);
  }
  static std::vector<float> mean_of_kept(Computing& one) {
    one.gradients().mean().unpack(one.repack(one.found.maxima), true);
    return one.buffer();
  }

  TestData data;
  FakeService service;
  rendezvous::JobSpec spec = spec_with(data, GetParam());
};

INSTANTIATE_TEST_SUITE_P(Wire, Sums, testing::Values("int32", "int16", "float32", "bfloat16", "float16", "int8"),
                         [](const auto& chosen) { return std::string(chosen.param); });

TEST_P(Sums, AreTheSameInOneTurnAndInSeveral) {
  Computing one(spec, service.url(), "w1");
  ASSERT_GE(spec.microbatches(), 3);
  const auto at_once = mean_of(one, {{0, 1, 2}});
  const LocalStep all = one.found;
  EXPECT_EQ(mean_of(one, {{0}, {}, {1, 2}}), at_once);
  EXPECT_EQ(one.found.loss, all.loss);
  EXPECT_EQ(one.found.tokens_digest, all.tokens_digest);
  EXPECT_EQ(one.found.maxima, all.maxima);
  if (one.gradients().exact()) {
    EXPECT_EQ(mean_of(one, {{1}, {0, 2}}), at_once) << "and in any order";
  }
}

// A loss scale is a power of two: taken out of the sums it leaves no trace, in maxima and exponents either.
TEST_P(Sums, AreWithoutTheLossScale) {
  Computing one(spec, service.url(), "w1");
  const auto unscaled = mean_of(one, {{0, 1, 2}});
  const LocalStep all = one.found;
  one.rank.session->model->set_loss_scale(13);
  EXPECT_EQ(mean_of(one, {{0, 1, 2}}), unscaled);
  EXPECT_EQ(one.found.maxima, all.maxima);
  EXPECT_EQ(one.found.loss, all.loss);
}

TEST_P(Sums, GetTheirFirstScaleFromOneMicrobatchWhichLeavesThemAsTheyAre) {
  Computing one(spec, service.url(), "w1");
  if (!one.gradients().exact()) GTEST_SKIP() << "floats have no scale";
  const auto unset = one.exponents;
  const auto first = one.gradients().accumulate(0, std::vector<int64_t>{0}, unset);
  const auto expected = one.gradients().rule().for_next_step(unset, first.maxima);
  one.gradients().forget();
  one.exponents = one.gradients().first_exponents(0);
  EXPECT_EQ(one.exponents, expected);
  const auto undisturbed = mean_of(one, {{0, 1, 2}});
  one.gradients().forget();
  one.gradients().accumulate(0, std::vector<int64_t>{1, 2}, one.exponents);
  EXPECT_EQ(one.gradients().first_exponents(0), expected);
  one.found = one.gradients().accumulate(0, std::vector<int64_t>{0}, one.exponents);
  EXPECT_EQ(mean_of_kept(one), undisturbed);
}

TEST_P(Sums, SurviveAReductionThatFailed) {
  Computing one(spec, service.url(), "w1");
  const auto undisturbed = mean_of(one, {{0, 2}});
  one.gradients().forget();
  one.found = one.gradients().accumulate(0, std::vector<int64_t>{0, 2}, one.exponents);
  RingOfThreads ranks(2);
  ranks.run([&](Communicator& ring) {
    if (ring.rank() == 1) {
      ring.abort("as if it were gone");
      EXPECT_FALSE(ring.all_gather({}));
    } else {
      EXPECT_FALSE(one.gradients().mean().reduce(ring));
    }
  });
  EXPECT_EQ(one.gradients().kept(0, one.exponents), (std::vector<int64_t>{0, 2}));
  EXPECT_EQ(mean_of_kept(one), undisturbed);
}

// Packing again must not take for a gradient what a failed reduction left in its place.
TEST_P(Sums, ArePackedAgainRightlyAfterAReductionThatFailed) {
  Computing one(spec, service.url(), "w1");
  if (!one.gradients().exact()) GTEST_SKIP() << "packs nothing";
  const auto undisturbed = mean_of(one, {{4}});
  one.gradients().forget();
  one.found = one.gradients().accumulate(0, std::vector<int64_t>{4}, one.exponents);
  RingOfThreads alone(1);
  alone.run([&](Communicator& ring) { EXPECT_TRUE(one.gradients().mean().reduce(ring)); });
  EXPECT_EQ(mean_of_kept(one), undisturbed);
}

TEST_P(Sums, AreKeptForTheirStepAndTheirScaleAlone) {
  Computing one(spec, service.url(), "w1");
  one.gradients().accumulate(0, std::vector<int64_t>{2, 0}, one.exponents);
  EXPECT_EQ(one.gradients().kept(0, one.exponents), (std::vector<int64_t>{0, 2}));
  EXPECT_TRUE(one.gradients().kept(1, one.exponents).empty());
  auto others = one.exponents;
  ++others[0];
  EXPECT_TRUE(one.gradients().kept(0, others).empty());
  one.gradients().forget();
  EXPECT_TRUE(one.gradients().kept(0, one.exponents).empty());
}

// Three ranks reduce what they computed; every way of cutting the vector into ranges gives all of them the same mean.
class Reduction : public Sums {
 protected:
  static constexpr size_t kRanks = 3;

  Reduction() {
    for (size_t i = 0; i < kRanks; ++i) {
      all.push_back(std::make_unique<Computing>(spec, service.url(), "w" + std::to_string(i + 1)));
      all[i]->found = all[i]->gradients().accumulate(0, dealt(i), all[i]->exponents);
      auto& maxima = all[i]->found.maxima;
      if (largest.empty()) largest = maxima;
      for (size_t t = 0; t < maxima.size(); ++t) largest[t] = std::max(largest[t], maxima[t]);
    }
    for (auto& one : all) exponents = one->repack(largest);
  }
  std::vector<int64_t> dealt(size_t rank) const {
    std::vector<int64_t> microbatches;
    for (auto m = static_cast<int64_t>(rank); m < spec.microbatches(); m += kRanks) microbatches.push_back(m);
    return microbatches;
  }
  std::vector<float> reduced(const std::vector<Elements>& ranges) {
    ranks.options().generation++;
    ranks.run([&](Communicator& ring) {
      GradientAccumulator& gradients = all[static_cast<size_t>(ring.rank())]->gradients();
      for (const Elements& range : ranges) {
        const auto done = gradients.mean().reduce(ring, range);
        ASSERT_TRUE(done) << done.error().detail;
      }
      const auto done = gradients.mean().reduce_rows(ring);
      ASSERT_TRUE(done) << done.error().detail;
      gradients.mean().unpack(exponents, false);
    });
    for (const auto& one : all) EXPECT_EQ(one->buffer(), all[0]->buffer()) << "all ranks have the same bits";
    return all[0]->buffer();
  }
  // The sums of one rank that computes everything, without a wire.
  std::vector<float> computed_alone() {
    Computing one(spec, service.url(), "alone");
    std::vector<int64_t> everything;
    for (int64_t m = 0; m < spec.microbatches(); ++m) everything.push_back(m);
    return mean_of(one, {everything});
  }
  int64_t total() const { return all[0]->parameters(); }
  // Some roundings of the wire's type, of the largest gradient; one microbatch's may be larger than that of the mean.
  static float bound_beside(const std::vector<float>& mean) {
    const std::string wire = GetParam();
    float scale = 0;
    for (const float value : mean) scale = std::max(scale, std::fabs(value));
    return scale * (wire == "float32" ? 0x1p-20F : wire == "bfloat16" ? 0x1p-5F : wire == "float16" ? 0x1p-8F : 0x1p-4F);
  }

  std::vector<std::unique_ptr<Computing>> all;
  std::vector<float> largest;
  std::vector<int32_t> exponents;
  RingOfThreads ranks{static_cast<int>(kRanks)};
};

INSTANTIATE_TEST_SUITE_P(Wire, Reduction, testing::Values("int32", "int16", "float32", "bfloat16", "float16", "int8"),
                         [](const auto& chosen) { return std::string(chosen.param); });

TEST_P(Reduction, IsThatOfOneRankAlone) {
  const auto mean = reduced({{0, total()}}), expected = computed_alone();
  if (all[0]->gradients().exact()) {
    EXPECT_EQ(mean, expected);
    return;
  }
  const float bound = bound_beside(expected);
  for (size_t i = 0; i < mean.size(); ++i) ASSERT_NEAR(mean[i], expected[i], bound) << i;
}

TEST_P(Reduction, TakesRangesInAnyOrderAndOfAnyLength) {
  if (std::string(GetParam()) == "int8") GTEST_SKIP() << "other ranges are other blocks: see quantized_reduce_test";
  const auto at_once = reduced({{0, total()}});
  const int64_t a = total() / 3 + 1, b = total() / 2 + 2;
  const auto in_ranges = reduced({{b, total() - b}, {a, 0}, {0, 1}, {a, b - a}, {1, a - 1}});
  if (all[0]->gradients().exact()) {
    EXPECT_EQ(in_ranges, at_once);
    return;
  }
  const float bound = bound_beside(at_once);  // float sums are taken in the order of the ring
  for (size_t i = 0; i < at_once.size(); ++i) ASSERT_NEAR(in_ranges[i], at_once[i], bound) << i;
}

TEST_P(Reduction, TouchesNothingOutsideOfItsRange) {
  const int64_t first = total() / 4 + 1, count = total() / 5;
  std::vector<std::vector<float>> before;
  for (auto& one : all) before.push_back(one->buffer());
  ranks.run([&](Communicator& ring) {
    ASSERT_TRUE(all[static_cast<size_t>(ring.rank())]->gradients().mean().reduce(ring, {first, count}));
  });
  for (size_t i = 0; i < kRanks; ++i) {
    auto after = all[i]->buffer();
    std::copy_n(before[i].begin() + first, count, after.begin() + first);
    EXPECT_EQ(after, before[i]) << "rank " << i;
  }
}

}  // namespace
}  // namespace holdfast::worker

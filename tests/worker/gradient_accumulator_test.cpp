// The sums of a step that is tried more than once.
#include "worker/gradient_accumulator.h"

#include <gtest/gtest.h>

#include "tests/worker/ranks_of_threads.h"

namespace holdfast::worker {
namespace {

class Sums : public ::testing::Test {
 protected:
  Sums() : spec(tiny_spec(data)), rank(spec, service.url(), "w1") {
    reset_to_initial(*rank.session);
    exponents.assign(rank.session->state->exponents().begin(), rank.session->state->exponents().end());
  }
  GradientAccumulator& gradients() { return *rank.session->gradients; }
  // Sums over microbatches computed in these turns.
  std::vector<int32_t> sums_of(const std::vector<std::vector<int64_t>>& turns) {
    gradients().forget();
    for (const auto& turn : turns) found = gradients().accumulate(0, turn, exponents);
    gradients().repack(gradients().repack_exponents(exponents, found.maxima));
    const auto sums = gradients().integer_sums();
    return {sums.begin(), sums.end()};
  }

  TestData data;
  FakeService service;
  rendezvous::JobSpec spec;
  TestRank rank;
  std::vector<int32_t> exponents;
  LocalStep found;
};

TEST_F(Sums, AreTheSameInOneTurnAndInSeveral) {
  ASSERT_GE(spec.microbatches(), 3);
  const auto at_once = sums_of({{0, 1, 2}});
  const LocalStep all = found;
  EXPECT_EQ(sums_of({{1}, {}, {0, 2}}), at_once);
  EXPECT_EQ(found.loss, all.loss);
  EXPECT_EQ(found.data_digest, all.data_digest);
  EXPECT_EQ(found.maxima, all.maxima);
}

TEST_F(Sums, SurviveAReductionThatFailed) {
  const auto before = sums_of({{0, 2}});
  std::ranges::fill(gradients().integer_result(), 7);  // as far as it came
  const auto sums = gradients().integer_sums();
  EXPECT_TRUE(std::ranges::equal(sums, before));
}

TEST_F(Sums, AreKeptForTheirStepAndTheirScaleAlone) {
  gradients().accumulate(0, std::vector<int64_t>{2, 0}, exponents);
  EXPECT_EQ(gradients().kept(0, exponents), (std::vector<int64_t>{0, 2}));
  EXPECT_TRUE(gradients().kept(1, exponents).empty());
  auto others = exponents;
  ++others[0];
  EXPECT_TRUE(gradients().kept(0, others).empty());
  gradients().forget();
  EXPECT_TRUE(gradients().kept(0, exponents).empty());
}

}  // namespace
}  // namespace holdfast::worker

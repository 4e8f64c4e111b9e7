// Sums that are used, or lost, while the pass that makes them goes on.
#include <gtest/gtest.h>

#include <numeric>

#include "tests/worker/ranks_of_threads.h"
#include "worker/gradient_accumulator.h"

namespace holdfast::worker {
namespace {

using Microbatches = std::vector<int64_t>;

class GradientRanges : public ::testing::Test {
 protected:
  GradientRanges() : spec(tiny_spec(data)), rank(spec, service.url(), "w1") {
    reset_to_initial(*rank.session);
    exponents.assign(rank.session->state->exponents().begin(), rank.session->state->exponents().end());
    Microbatches all(static_cast<size_t>(spec.microbatches()));
    std::iota(all.begin(), all.end(), 0);
    exponents = gradients().repack_exponents(exponents, gradients().accumulate(0, all, exponents).maxima);
    gradients().forget();
    RingOptions options;
    options.job = "j1";
    options.addresses = {rank.transport->address()};
    ring = std::move(*Communicator::form(*rank.transport, options));
  }
  GradientAccumulator& gradients() { return *rank.session->gradients; }
  const std::vector<Elements>& order() const { return rank.session->model->gradient_order(); }
  const LocalStep& accumulate(const Microbatches& microbatches, const GradientAccumulator::OnPacked& on_packed = nullptr) {
    return gradients().accumulate(0, microbatches, exponents, on_packed);
  }
  // The mean that the sums make: of this rank's own, or of what was reduced.
  std::vector<float> mean(bool own = true) {
    gradients().unpack(exponents, own);
    const float* values = rank.session->model->gradients();
    return {values, values + rank.session->model->table().total};
  }
  GradientAccumulator::OnPacked interrupt_after(size_t last) {
    return [this, last](size_t range) {
      if (range == last) rank.interrupt.raise("for the test");
    };
  }

  TestData data;
  FakeService service;
  rendezvous::JobSpec spec;
  TestRank rank;
  std::unique_ptr<Communicator> ring;
  std::vector<int32_t> exponents;  // under which no microbatch of step 0 overflows
};

TEST_F(GradientRanges, CanBeReducedAsSoonAsTheyAreToldOf) {
  accumulate({0, 1, 2});
  const auto expected = mean();
  gradients().forget();
  std::vector<size_t> told;
  accumulate({0, 1, 2}, [&](size_t range) {
    told.push_back(range);
    EXPECT_TRUE(gradients().reduce(*ring, order()[range])) << "writes over the gradients of this range";
  });
  EXPECT_EQ(told, (std::vector<size_t>{0, 1, 2})) << "ln_f, the layer, the embeddings: of the last microbatch alone";
  EXPECT_EQ(mean(false), expected) << "of all ranks";
  EXPECT_EQ(mean(), expected) << "of this rank, for a next try";
}

TEST_F(GradientRanges, AreToldOfAtOnceWhereNothingIsToBeComputed) {
  std::vector<size_t> told;
  const auto take = [&](size_t range) { told.push_back(range); };
  accumulate({}, take);
  EXPECT_EQ(told, (std::vector<size_t>{0, 1, 2}));
  EXPECT_EQ(mean(), std::vector<float>(mean().size(), 0.0F));
  accumulate({4});
  told.clear();
  accumulate({}, take);
  EXPECT_EQ(told, (std::vector<size_t>{0, 1, 2})) << "with one that was kept, too";
}

TEST_F(GradientRanges, OfAPassThatWasInterruptedAreCompletedByTheNext) {
  const LocalStep whole = accumulate({0, 1, 2});
  const auto expected = mean();
  gradients().forget();
  EXPECT_THROW(accumulate({2, 1}, interrupt_after(0)), model::Interrupted);
  EXPECT_EQ(gradients().kept(0, exponents), (Microbatches{1, 2})) << "a part of the second is in the sums";
  rank.interrupt.reset();
  EXPECT_THROW(accumulate({}, interrupt_after(1)), model::Interrupted);
  EXPECT_EQ(gradients().kept(0, exponents), (Microbatches{1, 2}));
  rank.interrupt.reset();
  const LocalStep completed = accumulate({0});
  EXPECT_EQ(gradients().kept(0, exponents), (Microbatches{0, 1, 2}));
  EXPECT_EQ(completed.loss, whole.loss);
  EXPECT_EQ(completed.data_digest, whole.data_digest);
  EXPECT_EQ(completed.maxima, whole.maxima);
  EXPECT_EQ(mean(), expected);
}

TEST_F(GradientRanges, OfAPassThatWasInterruptedBeforeTheFirstAreNotKept) {
  rank.interrupt.raise("for the test");
  EXPECT_THROW(accumulate({1}, [](size_t) {}), model::Interrupted);
  EXPECT_TRUE(gradients().kept(0, exponents).empty());
}

TEST_F(GradientRanges, ThatAreForgottenInTheMiddleBeginAnew) {
  accumulate({1});
  const auto expected = mean();
  gradients().forget();
  EXPECT_THROW(accumulate({2}, interrupt_after(1)), model::Interrupted);
  rank.interrupt.reset();
  gradients().forget();
  accumulate({1});
  EXPECT_EQ(gradients().kept(0, exponents), Microbatches{1});
  EXPECT_EQ(mean(), expected);
}

}  // namespace
}  // namespace holdfast::worker

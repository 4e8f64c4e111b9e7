// Sums that are used, or lost, while the pass that makes them goes on.
#include <gtest/gtest.h>

#include <numeric>

#include "tests/worker/step/ranks_of_threads.h"
#include "worker/gradients/accumulator.h"

namespace holdfast::worker {
namespace {

using Microbatches = std::vector<int64_t>;

// The embedding (the head's part), ln_f, the layer, the positions; then the embedding's rows of the encoder.
const std::vector<size_t> kAll = {0, 1, 2, 3, 4};

rendezvous::JobSpec spec_with(const TestData& data, const char* wire) {
  auto spec = tiny_spec(data);
  spec.wire_dtype = wire;
  return spec;
}

class GradientRanges : public ::testing::TestWithParam<const char*> {
 protected:
  GradientRanges() : spec(spec_with(data, GetParam())), rank(spec, service.url(), "w1") {
    reset_to_initial(*rank.session);
    exponents.assign(rank.session->state->exponents().begin(), rank.session->state->exponents().end());
    Microbatches all(static_cast<size_t>(spec.microbatches()));
    std::iota(all.begin(), all.end(), 0);
    exponents = gradients().rule().for_repack(exponents, gradients().accumulate(0, all, exponents).maxima);
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
    gradients().mean().unpack(exponents, own);
    const float* values = rank.session->model->gradients();
    return {values, values + rank.session->model->table().total};
  }
  // Sums what it is told of over a ring of this rank alone.
  GradientAccumulator::OnPacked reduce_each() {
    return [this](size_t range) {
      if (range == order().size()) {
        gradients().mean().begin_fetch_rows();
        EXPECT_TRUE(gradients().mean().reduce_rows(*ring));
      } else {
        gradients().mean().begin_fetch(*ring, order()[range]);
        EXPECT_TRUE(gradients().mean().reduce(*ring, order()[range])) << "writes over the gradients of this range";
      }
    };
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

INSTANTIATE_TEST_SUITE_P(Wire, GradientRanges, testing::Values("int32", "int16"),
                         [](const auto& chosen) { return std::string(chosen.param); });

TEST_P(GradientRanges, CanBeReducedAsSoonAsTheyAreToldOf) {
  accumulate({0, 1, 2});
  const auto expected = mean();
  gradients().forget();
  std::vector<size_t> told;
  accumulate({0, 1, 2}, [&](size_t range) {
    told.push_back(range);
    reduce_each()(range);
  });
  EXPECT_EQ(told, kAll) << "of the last microbatch alone";
  EXPECT_EQ(mean(false), expected) << "of all ranks";
  EXPECT_EQ(mean(), expected) << "of this rank, for a next try";
}

TEST_P(GradientRanges, AreToldOfAtOnceWhereNothingIsToBeComputed) {
  std::vector<size_t> told;
  const auto take = [&](size_t range) { told.push_back(range); };
  accumulate({}, take);
  EXPECT_EQ(told, kAll);
  EXPECT_EQ(mean(), std::vector<float>(mean().size(), 0.0F));
  accumulate({4});
  told.clear();
  accumulate({}, take);
  EXPECT_EQ(told, kAll) << "with one that was kept, too";
}

TEST_P(GradientRanges, OfAPassThatWasInterruptedAreCompletedByTheNext) {
  const LocalStep whole = accumulate({0, 1, 2});
  const auto expected = mean();
  gradients().forget();
  EXPECT_THROW(accumulate({2, 1}, interrupt_after(0)), model::Interrupted);
  EXPECT_EQ(gradients().kept(0, exponents), (Microbatches{1, 2})) << "a part of the second is in the sums";
  rank.interrupt.reset();
  EXPECT_THROW(accumulate({}, interrupt_after(2)), model::Interrupted);
  EXPECT_EQ(gradients().kept(0, exponents), (Microbatches{1, 2}));
  rank.interrupt.reset();
  const LocalStep completed = accumulate({0});
  EXPECT_EQ(gradients().kept(0, exponents), (Microbatches{0, 1, 2}));
  EXPECT_EQ(completed.loss, whole.loss);
  EXPECT_EQ(completed.tokens_digest, whole.tokens_digest);
  EXPECT_EQ(completed.maxima, whole.maxima);
  EXPECT_EQ(mean(), expected);
}

// The rows of the embedding that a try sent apart are in the sums of the next one, and no more than once.
TEST_P(GradientRanges, OfTriesThatFailedAreInTheNextOnce) {
  accumulate({0, 1, 2});
  const auto expected = mean();
  gradients().forget();
  accumulate({1}, reduce_each());
  accumulate({}, reduce_each());
  accumulate({0});
  accumulate({});
  accumulate({2}, reduce_each());
  EXPECT_EQ(mean(false), expected) << "of all ranks";
  accumulate({}, reduce_each());
  EXPECT_EQ(mean(false), expected) << "and again";
  EXPECT_EQ(mean(), expected) << "of this rank alone";
  EXPECT_EQ(mean(), expected) << "and again";
}

TEST_P(GradientRanges, AreCompletedThoughTheTryBeforeKeptRowsApart) {
  accumulate({0, 1});
  const auto expected = mean();
  gradients().forget();
  accumulate({1}, reduce_each());
  EXPECT_THROW(accumulate({0}, interrupt_after(0)), model::Interrupted);
  rank.interrupt.reset();
  accumulate({}, reduce_each());
  EXPECT_EQ(mean(false), expected);
}

TEST_P(GradientRanges, OfTheEmbeddingAreMeasuredWithBothPartsTogether) {
  const float told = accumulate({3}).maxima[0];
  model::Gpt2& model = *rank.session->model;
  const model::TokenGradient encoder = model.token_gradient();
  const auto rows = static_cast<int64_t>(encoder.ids.size());
  const float head_largest = rank.session->ops->abs_max(model.gradients(), order()[0].count);
  const float encoder_largest = rank.session->ops->abs_max(encoder.rows, rows * model.config().n_embd);
  EXPECT_GT(encoder_largest, 0.0F);
  EXPECT_GE(static_cast<double>(told), static_cast<double>(head_largest) + static_cast<double>(encoder_largest));
  EXPECT_FLOAT_EQ(told, head_largest + encoder_largest);
}

// The head's part is on its way before it is known that both do not fit.
TEST_P(GradientRanges, OfTheEmbeddingThatOverflowArePackedAgainWithBothParts) {
  const float largest = accumulate({3}).maxima[0];
  gradients().forget();
  while (gradients().rule().for_repack(exponents, std::vector<float>{largest}).empty()) ++exponents[0];
  const auto found = accumulate({3}, reduce_each());
  const auto after = gradients().rule().for_repack(exponents, found.maxima);
  ASSERT_FALSE(after.empty());
  EXPECT_EQ(after[0], exponents[0] - 1);
  gradients().repack(after);
  exponents = after;
  const auto packed_again = mean();
  gradients().forget();
  accumulate({3});
  EXPECT_EQ(mean(), packed_again);
}

TEST_P(GradientRanges, OfAPassThatWasInterruptedBeforeTheFirstAreNotKept) {
  rank.interrupt.raise("for the test");
  EXPECT_THROW(accumulate({1}, [](size_t) {}), model::Interrupted);
  EXPECT_TRUE(gradients().kept(0, exponents).empty());
}

TEST_P(GradientRanges, ThatAreForgottenInTheMiddleBeginAnew) {
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

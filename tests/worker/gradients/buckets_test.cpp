// The buckets of the gradient, for models of several shapes.
#include "worker/gradients/buckets.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace holdfast::worker {
namespace {

using model::Elements;
using model::Gpt2Config;
using model::ParameterTable;

const Gpt2Config kTiny = {.n_layer = 6, .n_embd = 384, .n_head = 6, .vocab_size = 50257, .block_size = 512};
const Gpt2Config kSmall = {.n_layer = 12, .n_embd = 768, .n_head = 12, .vocab_size = 50257, .block_size = 1024};
const Gpt2Config kMinute = {.n_layer = 1, .n_embd = 16, .n_head = 2, .vocab_size = 48, .block_size = 8};

std::vector<GradientBucket> buckets_of(const Gpt2Config& config, int64_t target = kBucketElements) {
  const ParameterTable table(config);
  return gradient_buckets(table, table.backward_order(), target);
}

bool meet(const Elements& a, const Elements& b) {
  return a.first < b.first + b.count && b.first < a.first + a.count;
}

class GradientBucketsOf : public ::testing::TestWithParam<Gpt2Config> {};

// Whether no row of a matrix lies on both sides.
bool between_rows(const ParameterTable& table, int64_t at) {
  return std::ranges::any_of(table.entries, [&](const model::Parameter& tensor) {
    const int64_t width = tensor.shape.size() == 2 ? tensor.shape[1] : tensor.count;
    return at >= tensor.offset && at < tensor.offset + tensor.count && (at - tensor.offset) % width == 0;
  });
}

TEST_P(GradientBucketsOf, AreAPartitionBetweenRows) {
  const ParameterTable table(GetParam());
  for (const int64_t target : {int64_t{1}, int64_t{3000}, kBucketElements, table.total * 2}) {
    auto buckets = buckets_of(GetParam(), target);
    std::ranges::sort(buckets, {}, [](const GradientBucket& bucket) { return bucket.elements.first; });
    int64_t end = 0;
    for (const GradientBucket& bucket : buckets) {
      EXPECT_EQ(bucket.elements.first, end);
      EXPECT_GT(bucket.elements.count, 0);
      EXPECT_TRUE(between_rows(table, end)) << end;
      end += bucket.elements.count;
    }
    EXPECT_EQ(end, table.total);
  }
}

TEST_P(GradientBucketsOf, LieInTheRangesThatTheyWaitFor) {
  const ParameterTable table(GetParam());
  const auto order = table.backward_order();
  size_t before = 0;
  for (const GradientBucket& bucket : buckets_of(GetParam(), 3000)) {
    ASSERT_GE(bucket.after, std::max<size_t>(before, 1)) << "they are finished in this order";
    ASSERT_LE(bucket.after, order.size());
    before = bucket.after;
    for (size_t range = 0; range < order.size(); ++range) {
      if (!meet(bucket.elements, order[range])) continue;
      EXPECT_LT(range, bucket.after) << bucket.elements.first;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Models, GradientBucketsOf, ::testing::Values(kTiny, kSmall, kMinute),
                         [](const auto& tested) { return "n_embd" + std::to_string(tested.param.n_embd); });

TEST(GradientBucketsOfTiny, WaitForNoMoreThanTheirOwnLayer) {
  const ParameterTable table(kTiny);
  const auto buckets = buckets_of(kTiny);
  for (size_t layer = 0; layer < 6; ++layer) {
    // The last layer goes with ln_f: 1.77 million elements a layer make two buckets.
    const Elements range = table.backward_order()[2 + layer];
    const auto in_layer = std::ranges::count_if(buckets, [&](const GradientBucket& b) { return b.after == layer + 3; });
    EXPECT_EQ(in_layer, 2) << "layer " << 5 - layer;
    EXPECT_EQ(range.count, 12 * 384 * 384 + 13 * 384);
  }
  EXPECT_EQ(buckets.size(), 18U + 12 + 1) << "the embedding's, the layers', and that of the positions";
  EXPECT_EQ(buckets.back().elements.first, table["wpe.weight"].offset);
}

TEST(GradientBucketsOfTiny, OfTheEmbeddingAreFirstAndAboutEquallyLarge) {
  const ParameterTable table(kTiny);
  const auto buckets = buckets_of(kTiny);
  for (size_t bucket = 0; bucket < 18; ++bucket) {
    EXPECT_EQ(buckets[bucket].after, 1U);
    EXPECT_LE(buckets[bucket].elements.first + buckets[bucket].elements.count, table["wpe.weight"].offset);
    EXPECT_NEAR(static_cast<double>(buckets[bucket].elements.count) / kBucketElements, 1.0, 0.1);
  }
}

TEST(GradientBuckets, AreReadyWithTheirRanges) {
  const std::vector<GradientBucket> buckets = {{{90, 10}, 1}, {{50, 40}, 3}, {{40, 10}, 3}, {{0, 40}, 4}};
  EXPECT_EQ(buckets_after(buckets, 0), 0U);
  EXPECT_EQ(buckets_after(buckets, 1), 1U);
  EXPECT_EQ(buckets_after(buckets, 2), 1U);
  EXPECT_EQ(buckets_after(buckets, 3), 3U);
  EXPECT_EQ(buckets_after(buckets, 4), 4U);
}

TEST(GradientBuckets, OfASmallModelAreTheEmbeddingsAndTheRest) {
  EXPECT_EQ(buckets_of(kMinute).size(), 2U);
}

}  // namespace
}  // namespace holdfast::worker

// What is reduced together, for models of several shapes.
#include "worker/gradient_buckets.h"

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

bool within(const Elements& range, const Elements& part) {
  return part.first >= range.first && part.first + part.count <= range.first + range.count;
}

class GradientBucketsOf : public ::testing::TestWithParam<Gpt2Config> {};

TEST_P(GradientBucketsOf, AreAPartitionAtTensorsBounds) {
  const ParameterTable table(GetParam());
  for (const int64_t target : {int64_t{1}, int64_t{3000}, kBucketElements, table.total * 2}) {
    auto buckets = buckets_of(GetParam(), target);
    std::ranges::sort(buckets, {}, [](const GradientBucket& bucket) { return bucket.elements.first; });
    int64_t end = 0;
    for (const GradientBucket& bucket : buckets) {
      EXPECT_EQ(bucket.elements.first, end);
      EXPECT_GT(bucket.elements.count, 0);
      EXPECT_NE(std::ranges::find(table.entries, end, &model::Parameter::offset), table.entries.end()) << end;
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
    for (const model::Parameter& tensor : table.entries) {
      if (!within(bucket.elements, {tensor.offset, tensor.count})) continue;
      const auto range = std::ranges::find_if(order, [&](const Elements& r) {
        return within(r, {tensor.offset, tensor.count});
      });
      EXPECT_LT(static_cast<size_t>(range - order.begin()), bucket.after) << tensor.name;
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
    const Elements range = table.backward_order()[1 + layer];
    const auto in_layer = std::ranges::count_if(buckets, [&](const GradientBucket& b) { return b.after == layer + 2; });
    EXPECT_EQ(in_layer, 2) << "layer " << 5 - layer;
    EXPECT_EQ(range.count, 12 * 384 * 384 + 13 * 384);
  }
  EXPECT_EQ(buckets.size(), 13U);
  EXPECT_GE(buckets.back().elements.count, int64_t{50257} * 384) << "the embedding is not cut";
}

TEST(GradientBuckets, AreReadyWithTheirRanges) {
  const std::vector<GradientBucket> buckets = {{{90, 10}, 1}, {{50, 40}, 3}, {{40, 10}, 3}, {{0, 40}, 4}};
  EXPECT_EQ(buckets_after(buckets, 0), 0U);
  EXPECT_EQ(buckets_after(buckets, 1), 1U);
  EXPECT_EQ(buckets_after(buckets, 2), 1U);
  EXPECT_EQ(buckets_after(buckets, 3), 3U);
  EXPECT_EQ(buckets_after(buckets, 4), 4U);
}

TEST(GradientBuckets, OfASmallModelAreOne) {
  EXPECT_EQ(buckets_of(kMinute).size(), 1U);
}

}  // namespace
}  // namespace holdfast::worker

// The buckets of the gradient: the parts that go over the ring one by one while the backward pass goes on.
//
// A bucket is whole tensors, next to each other in the flat vector, or whole rows of a large matrix. It has some megabytes:
// large enough that the ring's latency does not count, small enough that little waits for another. It can be reduced when all
// ranges of the backward pass that it lies in are final.
// Promises: a partition of the table, in the order in which the buckets are finished; a function of the model alone, so all
// ranks have the same buckets, at any world size. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "model/parameter_table.h"

namespace holdfast::worker {

struct GradientBucket {
  model::Elements elements;
  size_t after = 0;  // the number of first ranges that must be final
};

inline constexpr int64_t kBucketElements = 1 << 20;  // 4 MB of float32

// A bucket ends where it has `target` elements, and where a range ends if it has half of them. A matrix of twice `target` or
// more, such as the embedding, is cut evenly between rows: it is final all at once, but its first megabytes are added up
// while the next ones are on their way. `order` is the backward pass's, a partition of the table at bounds of tensors or of
// rows (Gpt2::gradient_order).
std::vector<GradientBucket> gradient_buckets(const model::ParameterTable& table, std::span<const model::Elements> order,
                                             int64_t target = kBucketElements);

// How many of the buckets are final once the first `ranges` ranges are.
size_t buckets_after(std::span<const GradientBucket> buckets, size_t ranges);

}  // namespace holdfast::worker

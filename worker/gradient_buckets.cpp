#include "worker/gradient_buckets.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace holdfast::worker {
namespace {

using model::Elements;

// Puts tensors into the bucket at hand; they come from the end of the vector to its begin, as the backward pass goes.
class BucketBuilder {
 public:
  explicit BucketBuilder(int64_t target) : target_(target) {}

  void add(const model::Parameter& tensor, size_t range) {
    const bool adjoins = tensor.offset + tensor.count == open_.first;
    if (open_.count > 0 && !adjoins) close();
    open_ = {tensor.offset, open_.count + tensor.count};
    after_ = range + 1;
    if (open_.count >= target_) close();
  }
  void end_range() {
    if (open_.count * 2 >= target_) close();
  }
  std::vector<GradientBucket> take() {
    close();
    return std::move(buckets_);
  }

 private:
  void close() {
    if (open_.count > 0) buckets_.push_back({open_, after_});
    open_ = {};
  }
  int64_t target_;
  Elements open_;
  size_t after_ = 0;
  std::vector<GradientBucket> buckets_;
};

}  // namespace

std::vector<GradientBucket> gradient_buckets(const model::ParameterTable& table, std::span<const Elements> order,
                                             int64_t target) {
  BucketBuilder builder(target);
  for (size_t range = 0; range < order.size(); ++range) {
    const auto [first, count] = order[range];
    auto tensor = std::ranges::lower_bound(table.entries, first + count, {}, &model::Parameter::offset);
    while (tensor != table.entries.begin() && std::prev(tensor)->offset >= first) builder.add(*--tensor, range);
    builder.end_range();
  }
  return builder.take();
}

size_t buckets_after(std::span<const GradientBucket> buckets, size_t ranges) {
  const auto later = std::ranges::find_if(buckets, [&](const GradientBucket& bucket) { return bucket.after > ranges; });
  return static_cast<size_t>(later - buckets.begin());
}

}  // namespace holdfast::worker

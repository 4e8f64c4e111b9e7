#include "worker/gradients/buckets.h"

#include <algorithm>
#include <ranges>
#include <utility>

namespace holdfast::worker {
namespace {

using model::Elements;

// Cuts a tensor, or some of its rows, into pieces, from the end to the begin: a large matrix between rows, into as many pieces
// as there are targets in it; any other tensor is one piece.
std::vector<Elements> pieces_of(const model::Parameter& tensor, Elements part, int64_t target) {
  const int64_t width = tensor.shape.size() == 2 ? tensor.shape[1] : part.count, rows = part.count / width;
  const int64_t wanted = std::clamp<int64_t>(part.count / target, 1, rows);
  const int64_t piece_rows = (rows + wanted - 1) / wanted;
  std::vector<Elements> pieces;
  for (int64_t end = rows; end > 0;) {
    const int64_t begin = std::max<int64_t>(end - piece_rows, 0);
    pieces.push_back({part.first + begin * width, (end - begin) * width});
    end = begin;
  }
  return pieces;
}

// Puts pieces into the bucket at hand; they come from the end of a range to its begin, as the backward pass goes.
class BucketBuilder {
 public:
  explicit BucketBuilder(int64_t target) : target_(target) {}

  void add(const Elements& piece, size_t range) {
    const bool adjoins = piece.first + piece.count == open_.first;
    if (open_.count > 0 && !adjoins) close();
    open_ = {piece.first, open_.count + piece.count};
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
    for (const auto& [tensor, part] : std::views::reverse(table.cut(order[range]))) {
      for (const Elements& piece : pieces_of(table.entries[tensor], part, target)) builder.add(piece, range);
    }
    builder.end_range();
  }
  return builder.take();
}

size_t buckets_after(std::span<const GradientBucket> buckets, size_t ranges) {
  const auto later = std::ranges::find_if(buckets, [&](const GradientBucket& bucket) { return bucket.after > ranges; });
  return static_cast<size_t>(later - buckets.begin());
}

}  // namespace holdfast::worker

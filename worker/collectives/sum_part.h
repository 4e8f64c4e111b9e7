// The parts of a reduce-scatter. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace holdfast::worker {

// A part of a buffer, in elements, whose sum some ranks are to have. The numbers go round the ring, from the successor of rank
// `end` to `end`, where the sum is whole; from there it goes on to the `further` ranks that follow.
struct SumPart {
  size_t first = 0, count = 0;
  int end = 0, further = 0;
  bool operator==(const SumPart&) const = default;
};
// The part with the fewest hops such that all `owners` (one at least, distinct, below world_size) have the sum: it ends at the
// owner whom the others follow soonest, the first one in the list where several are alike.
SumPart part_for(size_t first, size_t count, std::span<const int32_t> owners, int world_size);
// The parts of a range of `count` elements, counted from its `first`; `parts` ascend.
std::vector<SumPart> parts_within(std::span<const SumPart> parts, size_t first, size_t count);

}  // namespace holdfast::worker

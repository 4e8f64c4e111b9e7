#include "worker/collectives/sum_part.h"

#include <algorithm>

namespace holdfast::worker {

SumPart part_for(size_t first, size_t count, std::span<const int32_t> owners, int world_size) {
  SumPart best{first, count, 0, world_size};
  for (const int32_t end : owners) {
    int further = 0;
    for (const int32_t owner : owners) further = std::max(further, (owner - end + world_size) % world_size);
    if (further < best.further) best.end = end, best.further = further;
  }
  return best;
}

std::vector<SumPart> parts_within(std::span<const SumPart> parts, size_t first, size_t count) {
  std::vector<SumPart> within;
  for (const SumPart& part : parts) {
    const size_t begin = std::max(part.first, first), end = std::min(part.first + part.count, first + count);
    if (begin < end) within.push_back({begin - first, end - begin, part.end, part.further});
  }
  return within;
}

}  // namespace holdfast::worker

// Elements sorted by magnitude into groups that whoever has the same copy makes alike.
//
// Promises: a pure function of the copy. Classes of larger magnitude come first; elements of a class keep their order.
// Thread: any.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace holdfast::worker {

inline constexpr size_t kMagnitudeClasses = 256;

struct MagnitudeGroups {
  std::array<uint32_t, kMagnitudeClasses> first;  // place of the first element of each class
  std::vector<uint32_t> sizes;                    // elements of each group, none of them 0

  // Groups have `elements_min` at least, but for one that is alone.
  MagnitudeGroups(std::span<const uint16_t> copy, size_t elements_min);
};

}  // namespace holdfast::worker

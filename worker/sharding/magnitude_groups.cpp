#include "worker/sharding/magnitude_groups.h"

#include "worker/sharding/ulps.h"

namespace holdfast::worker {
namespace {

// Two counts side by side, for an element often has the class of the one before it, and would wait for its count.
std::array<uint32_t, kMagnitudeClasses> count_classes(std::span<const uint16_t> copy) {
  std::array<uint32_t, kMagnitudeClasses> even{}, odd{};
  size_t i = 0;
  for (; i + 2 <= copy.size(); i += 2) {
    ++even[magnitude_class(copy[i])];
    ++odd[magnitude_class(copy[i + 1])];
  }
  if (i < copy.size()) ++even[magnitude_class(copy[i])];
  for (size_t c = 0; c < kMagnitudeClasses; ++c) even[c] += odd[c];
  return even;
}

}  // namespace

MagnitudeGroups::MagnitudeGroups(std::span<const uint16_t> copy, size_t elements_min) {
  const auto counts = count_classes(copy);
  uint32_t place = 0, group = 0;
  for (size_t c = kMagnitudeClasses; c-- > 0;) {
    first[c] = place;
    place += counts[c];
    group += counts[c];
    if (group < elements_min) continue;
    sizes.push_back(group);
    group = 0;
  }
  if (group == 0) return;
  if (sizes.empty()) sizes.push_back(0);
  sizes.back() += group;
}

}  // namespace holdfast::worker

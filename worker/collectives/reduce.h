// target[i] += source[i], for the adding half of an all-reduce.
//
// int32 wraps around, by definition and not by accident, so that the sum has the same bits in any order. float is one
// rounded addition per element, in the order of the ring. The two do not overlap.
#pragma once

#include <cstddef>
#include <span>

#include "worker/collectives/schedule.h"

namespace holdfast::worker {

// `element` is kInt32 or kFloat; both spans are equally long, in whole elements, and both are aligned to them.
void add_elements(std::span<std::byte> target, std::span<const std::byte> source, Element element);

}  // namespace holdfast::worker

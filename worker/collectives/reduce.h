// target[i] += source[i], for the adding half of an all-reduce.
//
// Integers wrap around, by definition and not by accident, so that the sum has the same bits in any order. float is one
// rounded addition per element, in the order of the ring; the 16-bit floats are widened to float, added, and rounded to
// nearest, ties to even. Source and target do not overlap.
#pragma once

#include <cstddef>
#include <span>

#include "worker/collectives/schedule.h"

namespace holdfast::worker {

// `element` is any but kByte; both spans are equally long, in whole elements, and both are aligned to them.
void add_elements(std::span<std::byte> target, std::span<const std::byte> source, Element element);

}  // namespace holdfast::worker

// Sums over the ring in 16 bits an element, where the result has 32: the memory of the result is all that is needed.
//
// What comes from the ring lies in the upper half of the result, and is widened from there, front to back: an element's 4
// bytes end before the 2 bytes of any that is still to be read. The lower half holds what this rank brings, where that has to
// be rounded first.
// Promises: `mine` is only read; nothing outside of `result` is touched; no allocation. `result` has 4 bytes for each element
// of `mine`, aligned to them, and does not overlap it. What a call that failed leaves in `result` is unspecified.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "worker/collectives/communicator.h"

namespace holdfast::worker {

// `result` becomes int32: each the sum as int16, which the caller knows to fit.
CollectiveResult<void> sum_int16(Communicator& ring, std::span<const int16_t> mine, std::span<std::byte> result);

// `result` becomes float: each rank's numbers rounded to 16 bits, and rounded again after each addition.
CollectiveResult<void> sum_as_bfloat16(Communicator& ring, std::span<const float> mine, std::span<std::byte> result);
CollectiveResult<void> sum_as_float16(Communicator& ring, std::span<const float> mine, std::span<std::byte> result);

}  // namespace holdfast::worker

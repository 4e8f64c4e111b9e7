// Sums over the ring with 16 bits an element, into a result with 32: no memory but the result's is needed.
//
// The ring writes into the upper half of the result, and the sums are widened from there, front to back: an element's 4 bytes
// end before the 2 bytes of any element that is still to be read. Where this rank's numbers have to be rounded first, the
// lower half holds the rounded ones.
// Promises: `mine` is only read; nothing outside of `result` is touched; no allocation. `result` has 4 bytes for each element
// of `mine`, aligned to them, and does not overlap it. After a call that failed the contents of `result` are unspecified.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "worker/collectives/communicator.h"

namespace holdfast::worker {

// `result` becomes int32: the sums of the ranks' int16, which the caller knows to fit into int16.
CollectiveResult<void> sum_int16(Communicator& ring, std::span<const int16_t> mine, std::span<std::byte> result);

// The same of a reduce-scatter: where it leaves a sum unspecified, it is one of int16.
CollectiveResult<void> sum_int16_of_parts(Communicator& ring, std::span<const int16_t> mine, std::span<std::byte> result,
                                          std::span<const SumPart> parts);

// `result` becomes float: each rank's numbers rounded to 16 bits, and rounded again after each addition.
CollectiveResult<void> sum_as_bfloat16(Communicator& ring, std::span<const float> mine, std::span<std::byte> result);
CollectiveResult<void> sum_as_float16(Communicator& ring, std::span<const float> mine, std::span<std::byte> result);

}  // namespace holdfast::worker

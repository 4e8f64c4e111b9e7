// The sum over all ranks in 8 bits an element (block_quantized.h), with error feedback.
//
// The vector goes in pieces, so that the memory for bytes on their way is bounded. A piece is cut into a segment for each
// rank, its owner. Every rank adds its earlier error to its numbers, quantizes the result, and sends each owner its segment.
// An owner sums the segments that it got in float32, by rank, quantizes the sum, and sends that to all. The errors of both
// roundings are what a rank adds the next time: so the mean over many calls is not biased, though each call is coarse (Seide
// et al. 2014; both directions as in Tang et al. 2019, "DoubleSqueeze").
//
// Bytes on a link, for P elements of 1 + 4/512 bytes each: P (N-1)/2 to the owners (all_to_all), P (N-1)/N from them. With
// two ranks that is a quarter of float32; from six ranks on the ring's bfloat16 moves less.
// Promises: all ranks have the same bits, the owner too. A rank's own numbers are only read. A call that failed, or whose
// step was not applied, leaves the errors as they were, so a repeated step adds them once: they change with `commit`.
// After `forget` the next call lacks the errors: half a quantum of one step, at most, of each rank and of the sum.
// A block that is not finite comes back as NaN in all its elements, and leaves no error there.
// Memory: two floats an element of the vector, and some bytes an element of a piece. Thread: one at a time.
#pragma once

#include <cstddef>
#include <map>
#include <span>
#include <vector>

#include "worker/collectives/communicator.h"

namespace holdfast::worker {

class QuantizedReduction {
 public:
  explicit QuantizedReduction(size_t elements);  // of the whole vector

  // Writes the sum of elements [first, first + mine.size()) of the vector over all ranks into `sum`, which is equally long
  // and other memory; all ranks call it alike. In a world of one nothing is rounded, and there is no error.
  CollectiveResult<void> reduce(Communicator& ring, size_t first, std::span<const float> mine, std::span<float> sum);
  // The sums since the last commit were applied.
  void commit();
  void forget();

 private:
  CollectiveResult<void> reduce_piece(Communicator& ring, std::span<const float> mine, std::span<const float> before,
                                      std::span<float> error, std::span<float> sum);

  std::vector<float> errors_, next_errors_;  // the second: as they will be after the commit
  bool any_ = false;                         // whether there are errors at all
  std::map<size_t, size_t> reduced_;         // since the last commit: where a range begins, and how long it is
  std::vector<std::byte> brought_, received_, gathered_;
};

}  // namespace holdfast::worker

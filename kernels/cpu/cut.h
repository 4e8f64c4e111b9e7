// How the work of an op is cut: by shape alone, never by the number of threads.
#pragma once

#include <algorithm>
#include <cstdint>

namespace holdfast::kernels::cpu {

// A range cut into `count` pieces of `piece` elements, the last one shorter.
struct Cut {
  int64_t extent, piece, count;

  // Pieces as even as multiples of `unit` allow, none longer than `most` (a multiple of `unit`).
  static Cut even(int64_t extent, int64_t most, int64_t unit) {
    const int64_t wanted = (extent + most - 1) / most;
    const int64_t share = (extent + wanted - 1) / wanted;
    return of((share + unit - 1) / unit * unit, extent);
  }
  static Cut of(int64_t piece, int64_t extent) { return {extent, piece, (extent + piece - 1) / piece}; }

  int64_t begin(int64_t i) const { return i * piece; }
  int64_t size(int64_t i) const { return std::min(piece, extent - i * piece); }
};

}  // namespace holdfast::kernels::cpu

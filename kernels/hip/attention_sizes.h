// Which kernels of attention a head's width and element take, and with which tiles: the same for a forward pass and for
// decoding, where a row is to have the same bits. Refuses: heads wider than kWidestHead (std::invalid_argument).
#pragma once

#include <cmath>
#include <stdexcept>
#include <string>

#include "kernels/hip/attention_chained.h"
#include "kernels/hip/hip_ops.h"

namespace holdfast::kernels::hip {

// Shared memory stays below 48 KB.
template <typename Element, int Width>
inline constexpr int rows_forward = sizeof(Element) == 2 ? (Width <= 64 ? 64 : 32) : (Width <= 64 ? 32 : 16);
template <typename Element, int Width>
inline constexpr int rows_backward = Width <= 64 ? 32 : 16;

inline AttentionShape shape_of(int64_t T, int64_t C, int64_t NH) {
  const auto HS = static_cast<int>(C / NH);
  if (HS > kWidestHead) {
    throw std::invalid_argument("heads of " + std::to_string(HS) + " channels: the hip device does up to " +
                                std::to_string(kWidestHead) + ": raise n_head");
  }
  const float scale = 1.0F / std::sqrt(static_cast<float>(HS));
  return {T, C, NH, HS, scale, scale * kLog2E};
}

// Calls what.template operator()<Wave, Width>().
template <typename What>
void with_sizes(int wave, int HS, What what) {
  const auto with_width = [&]<int Wave>() {
    if (HS <= 32) {
      what.template operator()<Wave, 32>();
    } else if (HS <= 64) {
      what.template operator()<Wave, 64>();
    } else {
      what.template operator()<Wave, 128>();
    }
  };
  wave == 64 ? with_width.template operator()<64>() : with_width.template operator()<32>();
}

// Whether the kernels of attention_chained.h do it: 16 bits, heads of at most 64 channels, and matrix units.
template <typename Element>
bool is_chained(const DeviceProperties& properties, int HS) {
  if (sizeof(Element) != 2 || HS > 64) return false;
#if defined(HOLDFAST_HIP_ON_CPU)
  return properties.wave == 64 ? Chain<MatrixTile<Element, 64>>::kExists : Chain<MatrixTile<Element, 32>>::kExists;
#else
  return has_matrix_units<Element>(properties.architecture);
#endif
}

// Calls what.template operator()<Wave, Width>(), with widths of the chained kernels.
template <typename Element, typename What>
void with_chained_sizes(int wave, int HS, What what) {
  if constexpr (sizeof(Element) == 2) {
    const auto with_width = [&]<int Wave>() {
      HS <= 32 ? what.template operator()<Wave, 32>() : what.template operator()<Wave, 64>();
    };
    wave == 64 ? with_width.template operator()<64>() : with_width.template operator()<32>();
  }
}

}  // namespace holdfast::kernels::hip

// The device on which tests of the hip op set run. In a build for a GPU it is the GPU (rungs 5 and 6 of the ladder). Else the
// CPU plays a GPU with waves of 32 and of 64 lanes, whose blocks and lanes run in an order that a seed decides (rung 3).
#pragma once

#include <cstdint>
#include <string>
#include <tuple>
#include <vector>

#include "kernels/gpus.h"
#include "kernels/ops.h"

#if defined(HOLDFAST_HIP_SHIM)
#include <hip/hip_runtime.h>
#endif

namespace holdfast::kernels::testing {

// The reason for a GTEST_SKIP; "": there is a device.
inline const char* reason_not_to_run() {
  return find_hip_devices().count > 0 ? "" : "this machine has no GPU that the runtime knows";
}

// Widths of waves to test, in lanes; 0: the device's own width.
inline std::vector<int> waves() {
#if defined(HOLDFAST_HIP_SHIM)
  return {32, 64};
#else
  return {0};
#endif
}

inline void use_wave([[maybe_unused]] int wave) {
#if defined(HOLDFAST_HIP_SHIM)
  shim::set_wave(wave);
#endif
}

inline void shuffle_with([[maybe_unused]] uint64_t seed) {
#if defined(HOLDFAST_HIP_SHIM)
  shim::shuffle_with(seed);
#endif
}

// For INSTANTIATE_TEST_SUITE_P of tuples (dtype, wave): "bfloat16_wave64".
template <typename Chosen>
std::string name_of(const Chosen& chosen) {
  const auto [dtype, wave] = chosen.param;
  return std::string(dtype_name(dtype)) + (wave == 0 ? "" : "_wave" + std::to_string(wave));
}

}  // namespace holdfast::kernels::testing

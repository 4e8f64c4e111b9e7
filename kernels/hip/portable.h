// The names that one source needs to run on AMD's GPUs, NVIDIA's, and on the CPU in tests: the runtime's names, a block's
// barrier and shared memory, lanes, and 16-bit numbers. Kernels use these and nothing else of a platform; matrix_tile.h has the
// products.
//
// The names are HIP's. ROCm's <hip/hip_runtime.h> brings them; under nvcc cuda_names.h maps them; in tests a header of the same
// name runs kernels on the CPU, a fiber a thread (tests/kernels/shim).
// Rules that keep one source right everywhere: blocks have one dimension, of whole waves of 64; what lanes do together they do
// in groups of 32 (kLanes), two of which are a wave on some machines; every thread of a block comes to each barrier(), every
// lane of a group to each exchange; no floating-point atomics.
#pragma once

#include <cmath>
#include <cstdint>
#include <type_traits>

#if defined(__CUDACC__)
#include "kernels/hip/cuda_names.h"
#else
#include <hip/hip_runtime.h>
#endif

// A block's shared memory: one object for all its threads, at a multiple of 16 bytes, with unspecified contents. Once a line.
#if !defined(HOLDFAST_SHARED)  // the tests' header has another
#define HOLDFAST_SHARED(Type, name) __attribute__((aligned(16))) __shared__ holdfast::kernels::hip::Plain<Type> name
#endif

// Before a loop whose arrays are to be registers, and before one whose passes side by side would need too many of them.
#if defined(HOLDFAST_HIP_ON_CPU)
#define HOLDFAST_UNROLL
#define HOLDFAST_UNROLL_BY_8
#define HOLDFAST_KEEP_LOOP
#else
#define HOLDFAST_UNROLL _Pragma("unroll")
#define HOLDFAST_UNROLL_BY_8 _Pragma("unroll 8")
#define HOLDFAST_KEEP_LOOP _Pragma("unroll 1")
#endif

namespace holdfast::kernels::hip {

// So that arrays can be named as types: Plain<float[32]> x.
template <typename Type>
using Plain = Type;

inline constexpr int kLanes = 32;

// Which branch of a function below is compiled. On the host's pass device code is parsed and never run.
#if defined(HOLDFAST_HIP_ON_CPU)
#elif defined(__CUDA_ARCH__)
#define HOLDFAST_NVIDIA_DEVICE 1
#elif defined(__HIP_DEVICE_COMPILE__)
#define HOLDFAST_AMD_DEVICE 1
#endif

// The wave of the device that is compiled for. Kernels that care have it as a template parameter, since the host does not know
// it before it has asked the device; the instantiation for the other width is empty.
#if defined(HOLDFAST_HIP_ON_CPU)
// Both are run: the kernel's parameter decides.
template <int Wave>
inline constexpr bool is_wave_of_device = true;
#elif defined(HOLDFAST_AMD_DEVICE) && defined(__GFX9__)
template <int Wave>
inline constexpr bool is_wave_of_device = Wave == 64;
#else
template <int Wave>
inline constexpr bool is_wave_of_device = Wave == 32;
#endif

// For the instantiation of a kernel for waves that the device does not have: nobody may launch it.
__device__ inline void wrong_wave() {
#if defined(HOLDFAST_NVIDIA_DEVICE)
  __trap();
#elif defined(HOLDFAST_AMD_DEVICE)
  __builtin_trap();
#endif
}

// --- block and lanes

// Every thread of the block arrives before one goes on; what they wrote to shared memory is seen by all.
__device__ inline void barrier() {
#if defined(HOLDFAST_AMD_DEVICE)
  // __syncthreads of ROCm 5.2's headers needs a function that newer device libraries lack.
  __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
  __builtin_amdgcn_s_barrier();
  __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
#elif defined(HOLDFAST_NVIDIA_DEVICE) || defined(HOLDFAST_HIP_ON_CPU)
  __syncthreads();
#endif
}

// Before an instruction that a whole wave must come to at once, after a branch that its lanes may have taken apart.
__device__ inline void reconverge() {
#if defined(HOLDFAST_NVIDIA_DEVICE)
  __syncwarp();
#endif
}

__device__ inline int lane() {
  return static_cast<int>(threadIdx.x) % kLanes;
}

// `value` of another lane of the group of 32.
__device__ inline float from_lane(float value, int source) {
#if defined(HOLDFAST_AMD_DEVICE)
  const int group =
      __builtin_amdgcn_mbcnt_hi(~0U, __builtin_amdgcn_mbcnt_lo(~0U, 0U)) & ~(kLanes - 1);  // 0, or 32 in waves of 64
  return __builtin_bit_cast(float, __builtin_amdgcn_ds_bpermute((group + source) * 4, __builtin_bit_cast(int, value)));
#elif defined(HOLDFAST_NVIDIA_DEVICE)
  return __shfl_sync(0xffffffffU, value, source);
#elif defined(HOLDFAST_HIP_ON_CPU)
  return shim::from_lane(value, source);
#else
  return value;
#endif
}

// `value` of another lane of the whole wave.
template <int Wave>
__device__ inline float from_lane_of_wave(float value, int source) {
#if defined(HOLDFAST_AMD_DEVICE)
  return __builtin_bit_cast(float, __builtin_amdgcn_ds_bpermute(source * 4, __builtin_bit_cast(int, value)));
#elif defined(HOLDFAST_HIP_ON_CPU)
  return shim::from_lane_of_wave(value, source, Wave);
#else
  return from_lane(value, source);  // waves of 64 are AMD's
#endif
}

// Over the group, in the same order on every platform; each lane has the result.
template <typename Combine>
__device__ inline float over_lanes(float value, Combine combine) {
  for (int distance = kLanes / 2; distance > 0; distance /= 2) value = combine(value, from_lane(value, lane() ^ distance));
  return value;
}
struct Sum {
  template <typename Number>
  __device__ Number operator()(Number a, Number b) const {
    return a + b;
  }
};
struct Largest {
  __device__ float operator()(float a, float b) const { return fmaxf(a, b); }
  __device__ uint32_t operator()(uint32_t a, uint32_t b) const { return a > b ? a : b; }
};
__device__ inline float sum_of_lanes(float value) {
  return over_lanes(value, Sum());
}
__device__ inline float largest_of_lanes(float value) {
  return over_lanes(value, Largest());
}

// --- functions. Where others need a dozen instructions for a last bit or for subnormal numbers, these take the device's own.

inline constexpr float kLog2E = 1.4426950408889634F, kLn2 = 0.6931471805599453F;

// 2^x, to two units in the last place; 0 instead of a subnormal number.
__device__ inline float exp2_of(float x) {
#if defined(HOLDFAST_AMD_DEVICE)
  return __builtin_amdgcn_exp2f(x);
#elif defined(HOLDFAST_NVIDIA_DEVICE)
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
#else
  return exp2f(x);
#endif
}

// 1 / x, to one unit in the last place. x is neither 0 nor subnormal, and at most 2^126.
__device__ inline float reciprocal_of(float x) {
#if defined(HOLDFAST_AMD_DEVICE)
  return __builtin_amdgcn_rcpf(x);
#elif defined(HOLDFAST_NVIDIA_DEVICE)
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
#else
  return 1.0F / x;
#endif
}

// --- numbers. The same bits as kernels/dtype.h: to nearest, ties to even.

struct BFloat16 {
  uint16_t bits;
};
struct Float16 {
  uint16_t bits;
};

template <typename To, typename From>
__host__ __device__ inline To bits_as(From from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  __builtin_memcpy(&to, &from, sizeof to);
  return to;
}

__host__ __device__ inline float widen(float x) {
  return x;
}
__host__ __device__ inline float widen(BFloat16 x) {
  return bits_as<float>(static_cast<uint32_t>(x.bits) << 16);
}
__device__ inline float widen(Float16 x) {
#if defined(HOLDFAST_NVIDIA_DEVICE)
  return __half2float(bits_as<__half>(x.bits));
#elif defined(HOLDFAST_AMD_DEVICE)
  return static_cast<float>(bits_as<_Float16>(x.bits));
#elif defined(HOLDFAST_HIP_ON_CPU)
  return shim::widen_half(x.bits);
#else
  return static_cast<float>(x.bits);
#endif
}

template <typename Element>
__device__ inline Element narrow(float x);
template <>
__device__ inline float narrow<float>(float x) {
  return x;
}
template <>
__device__ inline BFloat16 narrow<BFloat16>(float x) {
  const auto word = bits_as<uint32_t>(x);
  const uint32_t rounded = word + 0x7fffU + ((word >> 16) & 1U);
  return {static_cast<uint16_t>((x != x ? word | 0x400000U : rounded) >> 16)};  // a choice, not a branch: both are quick
}
template <>
__device__ inline Float16 narrow<Float16>(float x) {
#if defined(HOLDFAST_NVIDIA_DEVICE)
  return {bits_as<uint16_t>(__float2half_rn(x))};
#elif defined(HOLDFAST_AMD_DEVICE)
  return {bits_as<uint16_t>(static_cast<_Float16>(x))};
#elif defined(HOLDFAST_HIP_ON_CPU)
  return {shim::narrow_half(x)};
#else
  return {static_cast<uint16_t>(x)};
#endif
}

}  // namespace holdfast::kernels::hip

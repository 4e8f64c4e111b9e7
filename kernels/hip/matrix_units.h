// The instructions that multiply matrices, one function each: registers in, registers out. matrix_tile.h knows what lies where
// in them. On a device that lacks an instruction its function does nothing; on the CPU the tests' emulation follows the guides
// (tests/kernels/shim/units.cpp).
// References: AMD "RDNA4" and "RDNA3" ISA guides, section 7.12 (WMMA); AMD "CDNA3" ISA guide, section 7.1 (MFMA; gfx90a has the
// same, "CDNA1" for gfx908); NVIDIA PTX ISA, "Matrix fragments for mma.m16n8k16 with floating point type" and "ldmatrix".
#pragma once

#include <algorithm>
#include <initializer_list>
#include <string_view>
#include <type_traits>

#include "kernels/hip/portable.h"

namespace holdfast::kernels::hip {

// Sixteen-bit numbers side by side: what a lane has of an operand.
template <int Count>
struct alignas(Count < 8 ? 2 * Count : 16) Run {
  uint16_t x[Count];
};

#if defined(HOLDFAST_AMD_DEVICE)
#if defined(__gfx1200__) || defined(__gfx1201__)
#define HOLDFAST_WMMA12 1
#elif defined(__GFX11__)
#define HOLDFAST_WMMA11 1
#elif defined(__gfx908__) || defined(__gfx90a__) || defined(__gfx942__) || defined(__gfx950__)
#define HOLDFAST_MFMA 1
#endif
template <typename Number, int Count>
using Vector = Number __attribute__((ext_vector_type(Count)));

// c (as many floats as the lane has) = what `instruction` makes of a, b and c.
template <typename Number, int Sums, int Count, typename Instruction>
__device__ inline void with_vectors(const Run<Count>& a, const Run<Count>& b, float* c, Instruction instruction) {
  Vector<float, Sums> sums;
  __builtin_memcpy(&sums, c, sizeof sums);
  sums = instruction(bits_as<Vector<Number, Count>>(a), bits_as<Vector<Number, Count>>(b), sums);
  __builtin_memcpy(c, &sums, sizeof sums);
}
#endif

// The same for the host, which knows a device by its name: "gfx1201", "sm_90".
template <typename Element>
bool has_matrix_units(std::string_view architecture) {
  const auto is_one_of = [&](std::initializer_list<std::string_view> names) {
    return std::find(names.begin(), names.end(), architecture) != names.end();
  };
  if (architecture.starts_with("gfx11") || architecture.starts_with("sm_") ||
      is_one_of({"gfx1200", "gfx1201", "gfx908", "gfx942", "gfx950"}))
    return true;
  return architecture == "gfx90a" && std::is_same_v<Element, BFloat16>;  // matrix_tile.h says why not float16
}

namespace units {

// v_wmma_f32_16x16x16 of RDNA4, waves of 32: 8 sums a lane.
template <typename Element>
__device__ inline void wmma12([[maybe_unused]] const Run<8>& a, [[maybe_unused]] const Run<8>& b, [[maybe_unused]] float* c) {
#if defined(HOLDFAST_HIP_ON_CPU)
  shim::wmma12(std::is_same_v<Element, BFloat16>, &a, &b, c);
#elif defined(HOLDFAST_WMMA12)
  if constexpr (std::is_same_v<Element, BFloat16>) {
    with_vectors<short, 8>(a, b, c,
                           [](auto x, auto y, auto z) { return __builtin_amdgcn_wmma_f32_16x16x16_bf16_w32_gfx12(x, y, z); });
  } else {
    with_vectors<_Float16, 8>(a, b, c,
                              [](auto x, auto y, auto z) { return __builtin_amdgcn_wmma_f32_16x16x16_f16_w32_gfx12(x, y, z); });
  }
#endif
}

// v_wmma_f32_16x16x16 of RDNA3, waves of 32: 8 sums a lane.
template <typename Element>
__device__ inline void wmma11([[maybe_unused]] const Run<16>& a, [[maybe_unused]] const Run<16>& b, [[maybe_unused]] float* c) {
#if defined(HOLDFAST_HIP_ON_CPU)
  shim::wmma11(std::is_same_v<Element, BFloat16>, &a, &b, c);
#elif defined(HOLDFAST_WMMA11)
  if constexpr (std::is_same_v<Element, BFloat16>) {
    with_vectors<short, 8>(a, b, c,
                           [](auto x, auto y, auto z) { return __builtin_amdgcn_wmma_f32_16x16x16_bf16_w32(x, y, z); });
  } else {
    with_vectors<_Float16, 8>(a, b, c,
                              [](auto x, auto y, auto z) { return __builtin_amdgcn_wmma_f32_16x16x16_f16_w32(x, y, z); });
  }
#endif
}

// A lane's four numbers of an operand, two by two.
struct Pairs {
  Run<2> pair[2];
};

// v_mfma_f32_16x16x16 of CDNA, waves of 64: 4 sums a lane.
template <typename Element>
__device__ inline void mfma([[maybe_unused]] const Run<4>& a, [[maybe_unused]] const Run<4>& b, [[maybe_unused]] float* c) {
#if defined(HOLDFAST_HIP_ON_CPU)
  shim::mfma(std::is_same_v<Element, BFloat16>, &a, &b, c);
#elif defined(HOLDFAST_MFMA)
  if constexpr (std::is_same_v<Element, BFloat16>) {
#if defined(__gfx908__)  // v_mfma_f32_16x16x8bf16, twice: the first two k of every lane, then the others, of A and B alike
    for (int half = 0; half < 2; ++half) {
      with_vectors<short, 4>(bits_as<Pairs>(a).pair[half], bits_as<Pairs>(b).pair[half], c,
                             [](auto x, auto y, auto z) { return __builtin_amdgcn_mfma_f32_16x16x8bf16(x, y, z, 0, 0, 0); });
    }
#else
    with_vectors<short, 4>(a, b, c,
                           [](auto x, auto y, auto z) { return __builtin_amdgcn_mfma_f32_16x16x16bf16_1k(x, y, z, 0, 0, 0); });
#endif
  } else {
    with_vectors<_Float16, 4>(a, b, c,
                              [](auto x, auto y, auto z) { return __builtin_amdgcn_mfma_f32_16x16x16f16(x, y, z, 0, 0, 0); });
  }
#endif
}

// mma.sync.m16n8k16 of NVIDIA: c (4 floats) += a (4 registers) * b (2 registers).
template <typename Element>
__device__ inline void mma16816([[maybe_unused]] float* c, [[maybe_unused]] const uint32_t* a,
                                [[maybe_unused]] const uint32_t* b) {
#if defined(HOLDFAST_HIP_ON_CPU)
  shim::mma16816(std::is_same_v<Element, BFloat16>, a, b, c);
#elif defined(HOLDFAST_NVIDIA_DEVICE)
  if constexpr (std::is_same_v<Element, BFloat16>) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
  } else {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
  }
#endif
}

// ldmatrix.x4 of NVIDIA: four 8 x 8 matrices of 16 bits from shared memory; lane l names row l % 8 of the (l / 8)-th, as it
// lies there.
template <bool Transposed>
__device__ inline void ldmatrix([[maybe_unused]] uint32_t* x, [[maybe_unused]] const void* own_row) {
#if defined(HOLDFAST_HIP_ON_CPU)
  shim::ldmatrix(Transposed, own_row, x);
#elif defined(HOLDFAST_NVIDIA_DEVICE)
  const auto address = static_cast<uint32_t>(__cvta_generic_to_shared(own_row));
  if constexpr (Transposed) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3])
                 : "r"(address));
  } else {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3])
                 : "r"(address));
  }
#endif
}

}  // namespace units
}  // namespace holdfast::kernels::hip

// The two 16-bit floats that gradients travel as, and their conversions.
//
// Promises: the conversion to 16 bits rounds to nearest, ties to even. Values too large for float16 become infinity; a NaN
// stays a quiet NaN with its sign and upper bits; subnormal numbers are kept. The conversion to float is exact. The bits are
// those of the CPUs' own instructions (F16C, and AVX512-BF16 except for subnormal numbers, which those flush), without
// needing them.
// Reference: IEEE 754-2019, sections 4.3.1 (rounding) and 3.6 (binary16); bfloat16 is the upper half of binary32.
#pragma once

#include <bit>
#include <cstdint>
#include <span>

namespace holdfast::worker {

struct BFloat16 {
  uint16_t bits;
};
struct Float16 {
  uint16_t bits;
};

// A choice without a branch, so that loops over the conversions are vectorised. It uses masks, because GCC 12 turns a written
// choice into a branch that contains the floating-point operation, which may trap elsewhere, and then vectorises nothing
// (measured: sums of float16 take twice as long).
inline uint32_t chosen(bool condition, uint32_t yes, uint32_t no) {
  const uint32_t mask = 0u - static_cast<uint32_t>(condition);
  return (yes & mask) | (no & ~mask);
}

inline float to_float(BFloat16 half) {
  return std::bit_cast<float>(static_cast<uint32_t>(half.bits) << 16);
}

inline float to_float(Float16 half) {
  const uint32_t sign = (half.bits & 0x8000u) << 16, magnitude = (half.bits & 0x7fffu) << 13;
  // The exponents' biases differ by 112; the product is exact, of subnormal numbers too.
  const auto finite = std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) * 0x1p112f);
  const uint32_t special = magnitude | 0x7f800000u | chosen(magnitude > 0x0f800000u, 0x400000u, 0u);
  return std::bit_cast<float>(sign | chosen(magnitude >= 0x0f800000u, special, finite));
}

inline BFloat16 to_bfloat16(float value) {
  const auto word = std::bit_cast<uint32_t>(value);
  const uint32_t rounded = (word + 0x7fffu + ((word >> 16) & 1u)) >> 16;
  const uint32_t nan = (word >> 16) | 0x40u;
  return {static_cast<uint16_t>(chosen((word & 0x7fffffffu) > 0x7f800000u, nan, rounded))};
}

inline Float16 to_float16(float value) {
  const auto word = std::bit_cast<uint32_t>(value);
  const uint32_t sign = (word >> 16) & 0x8000u, magnitude = word & 0x7fffffffu;
  const uint32_t normal = (magnitude - 0x38000000u + 0xfffu + ((magnitude >> 13) & 1u)) >> 13;
  // Below 2^-14 the unit is 2^-24, which is also that of 0.5: adding it rounds there, ties to even.
  const float lifted = std::bit_cast<float>(magnitude) + 0.5f;
  const uint32_t subnormal = std::bit_cast<uint32_t>(lifted) - 0x3f000000u;
  const uint32_t nan = 0x7e00u | ((magnitude >> 13) & 0x3ffu);
  uint32_t half = chosen(magnitude < 0x38800000u, subnormal, normal);
  half = chosen(magnitude >= 0x477ff000u, 0x7c00u, half);  // from 65520 on: rounds to infinity
  half = chosen(magnitude > 0x7f800000u, nan, half);
  return {static_cast<uint16_t>(sign | half)};
}

// Both spans are equally long and do not overlap.
void narrow(std::span<const float> from, std::span<BFloat16> to);
void narrow(std::span<const float> from, std::span<Float16> to);
void widen(std::span<const BFloat16> from, std::span<float> to);
void widen(std::span<const Float16> from, std::span<float> to);

}  // namespace holdfast::worker

// Host-side element types: what `Act*` points at, one struct per DType.
//
// Promises: conversion from float rounds to nearest, ties to even; a value too large becomes infinity; a NaN stays a
// quiet NaN; subnormal numbers are kept. Conversion to float is exact.
// Reference: IEEE 754-2019, section 4.3.1 (rounding) and 3.6 (binary16); bfloat16 is the upper half of binary32.
#pragma once

#include <bit>
#include <cstdint>

#include "kernels/ops.h"

namespace holdfast::kernels {

struct BFloat16 {
  uint16_t bits;
  BFloat16() = default;
  BFloat16(float value) : bits(round(value)) {}
  operator float() const { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }

 private:
  static uint16_t round(float value) {
    const auto word = std::bit_cast<uint32_t>(value);
    if ((word & 0x7fffffffu) > 0x7f800000u) return static_cast<uint16_t>((word >> 16) | 0x40u);  // NaN: keep it one
    return static_cast<uint16_t>((word + 0x7fffu + ((word >> 16) & 1u)) >> 16);
  }
};

struct Float16 {
  uint16_t bits;
  Float16() = default;
  Float16(float value) : bits(round(value)) {}
  operator float() const { return widen(bits); }

 private:
  static uint16_t round(float value);
  static float widen(uint16_t bits);
};

// The element struct of a DType, for code that switches once and is generic from there on.
template <typename Element>
constexpr DType dtype_of();
template <>
constexpr DType dtype_of<float>() {
  return DType::kFloat32;
}
template <>
constexpr DType dtype_of<BFloat16>() {
  return DType::kBFloat16;
}
template <>
constexpr DType dtype_of<Float16>() {
  return DType::kFloat16;
}

}  // namespace holdfast::kernels

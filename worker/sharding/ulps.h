// 16-bit floats in the order of their values, and how many of them lie between two.
//
// Promises: maps of all 65,536 patterns, of bfloat16 as of float16, to each other and back: zeros of both signs, infinities and
// NaNs are patterns like any other. Neighbouring values are neighbouring integers, across zero, too: -0 is -1 and +0 is 0.
// Unit: one unit in the last place (ULP) is one step in that order.
// Thread: any; pure functions.
#pragma once

#include <cstdint>

namespace holdfast::worker {

// Two's complement instead of sign and magnitude, and back: the map is its own inverse.
inline uint16_t in_order(uint16_t bits) {
  return static_cast<uint16_t>(bits ^ (0x7fffu & (0u - (bits >> 15))));
}

// From `before` to `after`, modulo 2^16, with the sign in the lowest bit: 0, -1, +1, -2, … ULPs are 0, 1, 2, 3, …
inline uint16_t folded_difference(uint16_t before, uint16_t after) {
  const auto difference = static_cast<uint16_t>(in_order(after) - in_order(before));
  return static_cast<uint16_t>(static_cast<unsigned>(difference) << 1 ^ (0u - (difference >> 15)));
}

inline uint16_t with_difference(uint16_t before, uint16_t folded) {
  const unsigned difference = static_cast<unsigned>(folded) >> 1 ^ (0u - (folded & 1u));
  return in_order(static_cast<uint16_t>(in_order(before) + difference));
}

// The upper 8 bits of the magnitude: the exponent of a bfloat16; of a float16 the exponent and 3 bits below it.
inline uint8_t magnitude_class(uint16_t bits) {
  return static_cast<uint8_t>(bits >> 7);
}

}  // namespace holdfast::worker

#include "worker/collectives/block_quantized.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

#include "worker/collectives/instruction_sets.h"

namespace holdfast::worker {
namespace {

constexpr size_t kBlockBytes = sizeof(float) + kQuantizedBlock;
constexpr float kSmallest = 0x1p-100f;  // below it 127 / x and x / 127 come near the ends of what a float holds

// The bits of a magnitude, read as an integer, are in the order of the magnitudes, with infinity and NaN on top.
HOLDFAST_PER_INSTRUCTION_SET uint32_t largest_bits(const float* x, size_t count) {
  uint32_t largest = 0;
  for (size_t i = 0; i < count; ++i) {
    const uint32_t magnitude = std::bit_cast<uint32_t>(x[i]) & 0x7fffffffu;
    largest = magnitude > largest ? magnitude : largest;
  }
  return largest;
}

// Adding 1.5 * 2^23 leaves the nearest integer in the lowest bits, ties to even.
HOLDFAST_PER_INSTRUCTION_SET void round_all(const float* __restrict x, int8_t* __restrict rounded, size_t count,
                                            float inverse) {
  for (size_t i = 0; i < count; ++i) {
    const float shifted = x[i] * inverse + 12582912.0f;
    rounded[i] = static_cast<int8_t>(std::bit_cast<int32_t>(shifted) - 0x4b400000);
  }
}

HOLDFAST_PER_INSTRUCTION_SET void scale_all(float* __restrict x, const int8_t* __restrict rounded, size_t count, float scale) {
  for (size_t i = 0; i < count; ++i) x[i] = static_cast<float>(rounded[i]) * scale;
}

HOLDFAST_PER_INSTRUCTION_SET void add_scaled(float* __restrict x, const int8_t* __restrict rounded, size_t count, float scale) {
  for (size_t i = 0; i < count; ++i) x[i] += static_cast<float>(rounded[i]) * scale;
}

float quantize_block(const float* x, int8_t* rounded, size_t count) {
  const auto largest = std::bit_cast<float>(largest_bits(x, count));
  if (!std::isfinite(largest) || largest < kSmallest) {
    std::memset(rounded, 0, count);
    return std::isfinite(largest) ? 0.0f : std::numeric_limits<float>::quiet_NaN();
  }
  round_all(x, rounded, count, 127.0f / largest);
  return largest / 127.0f;
}

// Calls body(elements of this block, its int8, how many, its scale).
template <typename Body>
void for_each_block(std::span<const std::byte> bytes, std::span<float> x, Body body) {
  const std::byte* block = bytes.data();
  for (size_t first = 0; first < x.size(); first += kQuantizedBlock, block += kBlockBytes) {
    float scale;
    std::memcpy(&scale, block, sizeof scale);
    body(x.data() + first, reinterpret_cast<const int8_t*>(block + sizeof scale), std::min(kQuantizedBlock, x.size() - first),
         scale);
  }
}

}  // namespace

size_t quantized_bytes(size_t elements) {
  return elements + (elements + kQuantizedBlock - 1) / kQuantizedBlock * sizeof(float);
}

void quantize(std::span<const float> x, std::span<std::byte> bytes) {
  std::byte* block = bytes.data();
  for (size_t first = 0; first < x.size(); first += kQuantizedBlock, block += kBlockBytes) {
    const size_t count = std::min(kQuantizedBlock, x.size() - first);
    const float scale = quantize_block(x.data() + first, reinterpret_cast<int8_t*>(block + sizeof(float)), count);
    std::memcpy(block, &scale, sizeof scale);
  }
}

void dequantize(std::span<const std::byte> bytes, std::span<float> x) {
  for_each_block(bytes, x, scale_all);
}

void add_dequantized(std::span<const std::byte> bytes, std::span<float> x) {
  for_each_block(bytes, x, add_scaled);
}

void subtract_dequantized(std::span<const std::byte> bytes, std::span<float> x) {
  for_each_block(bytes, x, [](float* block, const int8_t* rounded, size_t count, float scale) {
    if (std::isfinite(scale)) return add_scaled(block, rounded, count, -scale);
    std::fill_n(block, count, 0.0f);
  });
}

}  // namespace holdfast::worker

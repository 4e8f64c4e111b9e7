// Floats as 8-bit integers with a scale for each block: what the int8 wire carries.
//
//   block    scale (float32: the largest magnitude / 127), then up to 512 int8: round(x / scale), ties to even
// Blocks follow each other without padding; only the last may have fewer elements. So the bytes of a piece that begins at a
// whole block are those of the whole from there on.
// Promises: |x - dequantized| <= scale / 2, but for rounding in the last place. A block that is not finite everywhere comes
// back as NaN everywhere; one whose largest magnitude is below 2^-100 comes back as zeros.
#pragma once

#include <cstddef>
#include <span>

namespace holdfast::worker {

constexpr size_t kQuantizedBlock = 512;  // elements

// The number of bytes for so many elements.
size_t quantized_bytes(size_t elements);

// In all of these `bytes` has quantized_bytes(x.size()).
void quantize(std::span<const float> x, std::span<std::byte> bytes);
void dequantize(std::span<const std::byte> bytes, std::span<float> x);
// x += the dequantized numbers
void add_dequantized(std::span<const std::byte> bytes, std::span<float> x);
// x -= the dequantized numbers. If x are the numbers that were quantized, the error is left. 0 in a block that is not finite.
void subtract_dequantized(std::span<const std::byte> bytes, std::span<float> x);

}  // namespace holdfast::worker

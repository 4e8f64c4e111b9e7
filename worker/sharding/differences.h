// The 16-bit copy of a chunk after a step as its differences from the copy before, which the receiver has. Of bfloat16 and of
// float16, in the same way: only the order of the bits counts (ulps.h).
//
// Promises: lossless for every pattern of bits. Never longer than the plain copy and kDifferencesHeaderBytes. The same copies
// and the same zstd give the same bytes; every zstd reads them. Bytes that would lead to another copy than the sender's,
// because they were altered or the copy before the step is another one, are an error, and leave the receiver's copy as it was:
// a checksum of the new copy travels with them. (It finds accidents, all but one of four billion; it is no defence against
// somebody who means harm. No bytes make the decoder read or write outside its buffers, whoever sent them.) Refuses: copies of
// different lengths (a broken invariant); nothing else when encoding. Memory: both classes keep buffers for the longest chunk
// that they saw, 9 bytes an element at most, beside zstd's. Thread: an object belongs to one thread at a time.
//
// A chunk, integers little-endian:
//
//   1 byte       the format: 0 unchanged, 1 coded, 2 plain
//   4 bytes      lower half of XXH3-64 of the new copy
//   unchanged    nothing more; plain: the new copy
//   coded        2 bits a group, 4 groups a byte, from the lowest bits: fields of 8, 4 or 2 bits (0, 1, 2); then one zstd frame
//
// Elements are sorted by magnitude class (of the copy before; largest first, in their order within a class), and classes are
// joined to groups of kGroupElementsMin at least, the last of which has what remains. Both sides know the groups. The frame
// contains each group's differences (folded_difference) as fields, from the lowest bits, padded with zeros to a whole byte;
// then the low bytes, then the high bytes, of the differences that are not below their field's largest value, which stands in
// their place. The coder ends a block after each group: a Huffman table for each.
//
// Why groups: an ULP grows with the magnitude and a step does not, so large weights hardly move and small ones do by many
// ULPs. It takes 0.2 to 1 bit an element off (bench/NOTES.md).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <tl/expected.hpp>

namespace holdfast::worker {

inline constexpr size_t kDifferencesHeaderBytes = 5;
inline constexpr size_t kGroupElementsMin = 1024;

class DifferenceEncoder {
 public:
  DifferenceEncoder();
  ~DifferenceEncoder();
  DifferenceEncoder(DifferenceEncoder&&) noexcept;

  // The bytes that lead from `before` to `after`. Valid until the next call.
  std::span<const std::byte> encode(std::span<const uint16_t> before, std::span<const uint16_t> after);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

class DifferenceDecoder {
 public:
  DifferenceDecoder();
  ~DifferenceDecoder();
  DifferenceDecoder(DifferenceDecoder&&) noexcept;

  // `copy` is the copy before the step, and becomes the one after it. The error is a sentence that says what is wrong with the
  // bytes and what was expected; `copy` is then as it was.
  tl::expected<void, std::string> decode(std::span<const std::byte> coded, std::span<uint16_t> copy);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace holdfast::worker

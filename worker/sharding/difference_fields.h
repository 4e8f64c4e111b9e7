// Folded differences (ulps.h) as fields of 8, 4 or 2 bits, and the few that need more apart from them.
//
// Promises: what is unpacked is what was packed; bytes from elsewhere are unpacked to something or refused, and never read
// beyond their end. A field that is all ones stands for an exception: the next of a list, which has 16 bits for it.
// Why fields below 8 bits: zstd's Huffman codes spend a bit on a symbol at least. Where most differences are 0, two or four of
// them make a symbol.
// Thread: any; functions of their arguments.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace holdfast::worker {

enum class FieldBits : uint8_t { kEight, kFour, kTwo };  // as on the wire

inline size_t fields_in_a_byte(FieldBits bits) {
  return size_t{1} << static_cast<unsigned>(bits);
}
inline size_t field_bytes(size_t count, FieldBits bits) {
  return (count + fields_in_a_byte(bits) - 1) / fields_in_a_byte(bits);
}
// A field of this value stands for an exception.
inline unsigned field_of_exception(FieldBits bits) {
  return (1u << (8 / fields_in_a_byte(bits))) - 1;
}

// The width that is expected to take the fewest bits once fields are coded.
FieldBits choose_field_bits(std::span<const uint16_t> folded);

// Exceptions as two planes of bytes. `count` is how many there are, or how many are used up.
struct Exceptions {
  std::byte *low, *high;
  size_t count = 0;
};

// Writes field_bytes() to `fields`, and appends to `exceptions`, which has room for folded.size() more.
void pack_fields(std::span<const uint16_t> folded, FieldBits bits, std::byte* fields, Exceptions& exceptions);

enum class Unpacked : uint8_t { kWhole, kPaddingIsNotZero, kTooFewExceptions };
// `fields` has field_bytes(folded.size(), bits) bytes. Takes from exceptions.count on, of `exceptions_in_all`.
Unpacked unpack_fields(const std::byte* fields, FieldBits bits, std::span<uint16_t> folded, Exceptions& exceptions,
                       size_t exceptions_in_all);

}  // namespace holdfast::worker

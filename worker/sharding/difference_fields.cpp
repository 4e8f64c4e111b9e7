#include "worker/sharding/difference_fields.h"

namespace holdfast::worker {
namespace {

// Fields of kBits bits; loops over whole bytes, so that compilers unroll or vectorise what is within one.
template <unsigned kBits>
struct Fields {
  static constexpr size_t kInAByte = 8 / kBits;
  static constexpr unsigned kException = (1u << kBits) - 1;

  static unsigned field_of(uint16_t folded, Exceptions& exceptions) {
    if (folded < kException) return folded;
    exceptions.low[exceptions.count] = static_cast<std::byte>(folded & 0xff);
    exceptions.high[exceptions.count++] = static_cast<std::byte>(folded >> 8);
    return kException;
  }

  static void pack(std::span<const uint16_t> folded, std::byte* fields, Exceptions& exceptions) {
    size_t i = 0;
    for (; i + kInAByte <= folded.size(); i += kInAByte) {
      unsigned byte = 0;
      for (size_t k = 0; k < kInAByte; ++k) byte |= field_of(folded[i + k], exceptions) << (k * kBits);
      *fields++ = static_cast<std::byte>(byte);
    }
    if (i == folded.size()) return;
    unsigned byte = 0;
    for (size_t k = 0; i + k < folded.size(); ++k) byte |= field_of(folded[i + k], exceptions) << (k * kBits);
    *fields = static_cast<std::byte>(byte);
  }

  // Leaves kException where exceptions are to come. The return value is how many these are.
  static size_t spread(const std::byte* fields, std::span<uint16_t> folded) {
    size_t i = 0;
    uint32_t exceptions = 0;
    for (; i + kInAByte <= folded.size(); i += kInAByte) {
      const auto byte = static_cast<unsigned>(*fields++);
      for (size_t k = 0; k < kInAByte; ++k) {
        const unsigned field = byte >> (k * kBits) & kException;
        folded[i + k] = static_cast<uint16_t>(field);
        exceptions += field == kException;
      }
    }
    for (size_t k = 0; i + k < folded.size(); ++k) {
      const unsigned field = static_cast<unsigned>(*fields) >> (k * kBits) & kException;
      folded[i + k] = static_cast<uint16_t>(field);
      exceptions += field == kException;
    }
    return exceptions;
  }

  static Unpacked unpack(const std::byte* fields, std::span<uint16_t> folded, Exceptions& exceptions,
                         size_t exceptions_in_all) {
    const size_t used = folded.size() % kInAByte;
    if (used != 0 && static_cast<unsigned>(fields[folded.size() / kInAByte]) >> (used * kBits) != 0)
      return Unpacked::kPaddingIsNotZero;
    size_t left = spread(fields, folded);
    if (left > exceptions_in_all - exceptions.count) return Unpacked::kTooFewExceptions;
    for (size_t i = 0; left > 0; ++i) {
      if (folded[i] != kException) continue;
      folded[i] = static_cast<uint16_t>(static_cast<unsigned>(exceptions.low[exceptions.count]) |
                                        static_cast<unsigned>(exceptions.high[exceptions.count]) << 8);
      ++exceptions.count;
      --left;
    }
    return Unpacked::kWhole;
  }
};

}  // namespace

// A symbol takes a bit at least, and more than its entropy where one value has most of them: then two or four fields make one.
// The limits are the best of those tried on real differences; an exception takes about 12 bits, so there are to be few.
FieldBits choose_field_bits(std::span<const uint16_t> folded) {
  uint32_t zeros = 0, above_2 = 0, above_14 = 0;
  for (const uint16_t value : folded) {
    zeros += value == 0;
    above_2 += value > 2;
    above_14 += value > 14;
  }
  const size_t count = folded.size();
  if (zeros > count / 5 * 4 && above_2 < count / 50) return FieldBits::kTwo;
  if (zeros > count / 5 && above_14 < count / 100) return FieldBits::kFour;
  return FieldBits::kEight;
}

void pack_fields(std::span<const uint16_t> folded, FieldBits bits, std::byte* fields, Exceptions& exceptions) {
  switch (bits) {
    case FieldBits::kEight:
      return Fields<8>::pack(folded, fields, exceptions);
    case FieldBits::kFour:
      return Fields<4>::pack(folded, fields, exceptions);
    case FieldBits::kTwo:
      return Fields<2>::pack(folded, fields, exceptions);
  }
}

Unpacked unpack_fields(const std::byte* fields, FieldBits bits, std::span<uint16_t> folded, Exceptions& exceptions,
                       size_t exceptions_in_all) {
  switch (bits) {
    case FieldBits::kEight:
      return Fields<8>::unpack(fields, folded, exceptions, exceptions_in_all);
    case FieldBits::kFour:
      return Fields<4>::unpack(fields, folded, exceptions, exceptions_in_all);
    case FieldBits::kTwo:
      return Fields<2>::unpack(fields, folded, exceptions, exceptions_in_all);
  }
  return Unpacked::kTooFewExceptions;  // not reached
}

}  // namespace holdfast::worker

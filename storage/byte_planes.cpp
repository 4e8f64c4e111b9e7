#include "storage/byte_planes.h"

#include <cstdint>
#include <cstring>

namespace holdfast::storage {
namespace {

// Whole words are taken apart by shifts: compilers turn that into packs and unpacks, where they make scalar code of
// strided byte accesses. So little-endian, as FORMAT.md is.
template <typename Word, int kWidth>
void split(const std::byte* __restrict elements, size_t count, std::byte* const* planes) {
  constexpr size_t kBlock = 64;
  size_t i = 0;
  for (; i + kBlock <= count; i += kBlock) {
    Word words[kBlock];
    std::memcpy(words, elements + i * kWidth, sizeof(words));
    for (int k = 0; k < kWidth; ++k) {
      uint8_t* __restrict plane = reinterpret_cast<uint8_t*>(planes[k]) + i;
      for (size_t j = 0; j < kBlock; ++j) plane[j] = static_cast<uint8_t>(words[j] >> (8 * k));
    }
  }
  for (; i < count; ++i) {
    for (int k = 0; k < kWidth; ++k) planes[k][i] = elements[i * kWidth + static_cast<size_t>(k)];
  }
}

template <typename Word, int kWidth>
void join(const std::byte* const* planes, size_t count, std::byte* __restrict elements) {
  constexpr size_t kBlock = 64;
  size_t i = 0;
  for (; i + kBlock <= count; i += kBlock) {
    Word words[kBlock] = {};
    for (int k = 0; k < kWidth; ++k) {
      const uint8_t* __restrict plane = reinterpret_cast<const uint8_t*>(planes[k]) + i;
      for (size_t j = 0; j < kBlock; ++j) words[j] = static_cast<Word>(words[j] | (static_cast<Word>(plane[j]) << (8 * k)));
    }
    std::memcpy(elements + i * kWidth, words, sizeof(words));
  }
  for (; i < count; ++i) {
    for (int k = 0; k < kWidth; ++k) elements[i * kWidth + static_cast<size_t>(k)] = planes[k][i];
  }
}

}  // namespace

void split_planes(const std::byte* elements, size_t count, int width, std::byte* const* planes) {
  if (width == 2) return split<uint16_t, 2>(elements, count, planes);
  return split<uint32_t, 4>(elements, count, planes);
}

void join_planes(const std::byte* const* planes, size_t count, int width, std::byte* elements) {
  if (width == 2) return join<uint16_t, 2>(planes, count, elements);
  return join<uint32_t, 4>(planes, count, elements);
}

}  // namespace holdfast::storage

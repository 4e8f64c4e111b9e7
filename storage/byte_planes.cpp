#include "storage/byte_planes.h"

#include <cstdint>
#include <cstring>

namespace holdfast::storage {
namespace {

constexpr size_t kBlock = 64;  // elements

// Whole words are taken apart by shifts: compilers turn that into packs and unpacks, where they make scalar code of
// strided byte accesses. So little-endian, as FORMAT.md is.
template <typename Word, int kWidth>
void split(const std::byte* __restrict elements, size_t count, std::byte* const* planes) {
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

// pairs[j] = low[j] + 256 * high[j]
inline void join_pairs(const std::byte* low, const std::byte* high, uint16_t* __restrict pairs) {
  const auto* __restrict l = reinterpret_cast<const uint8_t*>(low);
  const auto* __restrict h = reinterpret_cast<const uint8_t*>(high);
  for (size_t j = 0; j < kBlock; ++j) pairs[j] = static_cast<uint16_t>(l[j] | (h[j] << 8));
}

void join_2(const std::byte* const* planes, size_t i, std::byte* elements) {
  uint16_t words[kBlock];
  join_pairs(planes[0] + i, planes[1] + i, words);
  std::memcpy(elements, words, sizeof(words));
}

// In two stages, each of which doubles the width: widening bytes to words at once is several times the instructions.
void join_4(const std::byte* const* planes, size_t i, std::byte* elements) {
  uint16_t low[kBlock], high[kBlock];
  join_pairs(planes[0] + i, planes[1] + i, low);
  join_pairs(planes[2] + i, planes[3] + i, high);
  uint32_t words[kBlock];
  for (size_t j = 0; j < kBlock; ++j) words[j] = low[j] | (static_cast<uint32_t>(high[j]) << 16);
  std::memcpy(elements, words, sizeof(words));
}

template <int kWidth, typename JoinBlock>
void join(const std::byte* const* planes, size_t count, std::byte* elements, const JoinBlock& join_block) {
  size_t i = 0;
  for (; i + kBlock <= count; i += kBlock) join_block(planes, i, elements + i * kWidth);
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
  if (width == 2) return join<2>(planes, count, elements, join_2);
  return join<4>(planes, count, elements, join_4);
}

}  // namespace holdfast::storage

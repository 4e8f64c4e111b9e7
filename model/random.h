// Random numbers without state: what is drawn is a function of a key and a counter, so any element of any tensor can be
// drawn by anyone, in any order (Salmon, Moraes, Dror, Shaw 2011, "Parallel random numbers: as easy as 1, 2, 3").
#pragma once

#include <array>
#include <cstdint>

#include "model/portable_math.h"

namespace holdfast::model {

// Philox4x32-10: the paper's section 3.3, with its constants.
inline std::array<uint32_t, 4> philox4x32(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    const uint64_t product0 = uint64_t{0xD2511F53} * counter[0];
    const uint64_t product1 = uint64_t{0xCD9E8D57} * counter[2];
    counter = {static_cast<uint32_t>(product1 >> 32) ^ counter[1] ^ key[0], static_cast<uint32_t>(product1),
               static_cast<uint32_t>(product0 >> 32) ^ counter[3] ^ key[1], static_cast<uint32_t>(product0)};
    key[0] += 0x9E3779B9;
    key[1] += 0xBB67AE85;
  }
  return counter;
}

// Uniform in (0, 1), never 0 or 1: the middle of one of 2^52 equal pieces (so exact in a double). `stream` keeps uses of
// one seed apart; the streams in use are named below.
inline double uniform_at(uint64_t seed, uint32_t stream, uint64_t index) {
  const std::array<uint32_t, 4> drawn =
      philox4x32({static_cast<uint32_t>(index), static_cast<uint32_t>(index >> 32), stream, 0},
                 {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)});
  const uint64_t bits = (uint64_t{drawn[1]} << 32 | drawn[0]) >> 12;
  return (static_cast<double>(bits) + 0.5) * 0x1p-52;
}

// Standard normal: the same bits on every machine (portable_math.h).
inline double normal_at(uint64_t seed, uint32_t stream, uint64_t index) {
  return portable_normal_quantile(uniform_at(seed, stream, index));
}

// Parameter tensor number t of the table is drawn from stream t; sampling text and the order of mixtures from these.
constexpr uint32_t kSamplingStream = 0xFFFF'FFFF;
constexpr uint32_t kMixtureStream = 0xFFFF'FFFE;

}  // namespace holdfast::model

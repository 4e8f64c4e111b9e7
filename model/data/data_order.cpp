#include "model/data/data_order.h"

#include <xxhash.h>

#include <bit>
#include <cassert>

namespace holdfast::model {

namespace {

constexpr int kRounds = 8;  // Luby and Rackoff need 4 for a large domain; small ones mix worse, and a round is cheap

// Steele, Lea, Flood 2014, "Fast splittable pseudorandom number generators", figure 16 (MurmurHash3's finalizer, mix 13).
uint64_t mix(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

// A bijection of [0, 4^half_bits), keyed.
uint64_t feistel(uint64_t key, int half_bits, uint64_t value) {
  const uint64_t mask = (uint64_t{1} << half_bits) - 1;
  uint64_t left = value >> half_bits, right = value & mask;
  for (int round = 0; round < kRounds; ++round) {
    const uint64_t next = left ^ (mix(key + static_cast<uint64_t>(round) * 0x9e3779b97f4a7c15ULL + mix(right)) & mask);
    left = right;
    right = next;
  }
  return left << half_bits | right;
}

}  // namespace

int64_t DataOrder::window_at(int64_t pass, int64_t place) const {
  assert(place >= 0 && place < windows);
  const uint64_t size = static_cast<uint64_t>(windows);
  const int bits = std::bit_width(size - 1);            // of the largest window
  const int half_bits = bits < 2 ? 1 : (bits + 1) / 2;  // the domain is at most 4 times the windows
  const uint64_t key = mix(mix(seed + 0x9e3779b97f4a7c15ULL) + static_cast<uint64_t>(pass));
  // Cycle walking: the orbit of a value below `size` comes back below `size`, and doing so is a bijection there.
  uint64_t value = static_cast<uint64_t>(place);
  do {
    value = feistel(key, half_bits, value);
  } while (value >= size);
  return static_cast<int64_t>(value);
}

int64_t windows_in(std::span<const uint16_t> tokens, int64_t block_size) {
  return (static_cast<int64_t>(tokens.size()) - 1) / block_size;
}

void copy_window(std::span<const uint16_t> tokens, size_t first, std::span<int32_t> inputs, std::span<int32_t> targets) {
  assert(first + inputs.size() < tokens.size() && targets.size() == inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    inputs[i] = tokens[first + i];
    targets[i] = tokens[first + i + 1];
  }
}

void fill_evaluation(std::span<const uint16_t> tokens, const BatchShape& shape, int64_t microbatch, std::span<int32_t> inputs,
                     std::span<int32_t> targets) {
  assert(inputs.size() == static_cast<size_t>(shape.tokens()) && targets.size() == inputs.size());
  const auto block = static_cast<size_t>(shape.block_size);
  for (int64_t row = 0; row < shape.batch_size; ++row) {
    const int64_t window = (microbatch * shape.batch_size + row) % windows_in(tokens, shape.block_size);
    const size_t at = static_cast<size_t>(row) * block;
    copy_window(tokens, static_cast<size_t>(window) * block, inputs.subspan(at, block), targets.subspan(at, block));
  }
}

uint64_t microbatch_digest(int64_t step, int64_t microbatch, std::span<const int32_t> inputs,
                           std::span<const int32_t> targets) {
  // The numbers go in as a seed rather than as bytes in front, so that no buffer is copied and no state allocated.
  const int64_t numbers[2] = {step, microbatch};
  const uint64_t seed = XXH3_64bits(numbers, sizeof numbers);
  return XXH3_64bits_withSeed(targets.data(), targets.size_bytes(),
                              XXH3_64bits_withSeed(inputs.data(), inputs.size_bytes(), seed));
}

}  // namespace holdfast::model

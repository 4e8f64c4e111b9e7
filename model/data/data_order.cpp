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

int64_t sequence_number(const DataOrder& order, int64_t step, int64_t microbatch, int64_t row) {
  return (step * order.microbatches + microbatch) * order.batch_size + row;
}

// One row of inputs and targets from window `window`.
void copy_window(std::span<const uint16_t> tokens, int64_t window, int64_t block_size, int32_t* inputs, int32_t* targets) {
  const uint16_t* first = tokens.data() + window * block_size;
  assert(static_cast<size_t>((window + 1) * block_size) < tokens.size());
  for (int64_t i = 0; i < block_size; ++i) {
    inputs[i] = first[i];
    targets[i] = first[i + 1];
  }
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

int64_t DataOrder::pass_of(int64_t step, int64_t microbatch, int64_t row) const {
  return sequence_number(*this, step, microbatch, row) / windows;
}

int64_t DataOrder::window_of(int64_t step, int64_t microbatch, int64_t row) const {
  const int64_t number = sequence_number(*this, step, microbatch, row);
  return window_at(number / windows, number % windows);
}

void DataOrder::fill(std::span<const uint16_t> tokens, int64_t step, int64_t microbatch, std::span<int32_t> inputs,
                     std::span<int32_t> targets) const {
  assert(inputs.size() == static_cast<size_t>(batch_size * block_size) && targets.size() == inputs.size());
  for (int64_t row = 0; row < batch_size; ++row) {
    copy_window(tokens, window_of(step, microbatch, row), block_size, &inputs[row * block_size], &targets[row * block_size]);
  }
}

void DataOrder::fill_evaluation(std::span<const uint16_t> tokens, int64_t microbatch, std::span<int32_t> inputs,
                                std::span<int32_t> targets) const {
  assert(inputs.size() == static_cast<size_t>(batch_size * block_size) && targets.size() == inputs.size());
  for (int64_t row = 0; row < batch_size; ++row) {
    const int64_t window = (microbatch * batch_size + row) % windows;
    copy_window(tokens, window, block_size, &inputs[row * block_size], &targets[row * block_size]);
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

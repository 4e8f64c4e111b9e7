// The order of one token file's windows: a pure function, so any worker can compute any microbatch.
//
// The file is cut into windows of block_size tokens (plus one for the last target); window w starts at token
// w * block_size. Pass p visits the windows in a pseudo-random order that depends on (seed, p) alone: a bijection, so
// each window is consumed once per pass. Evaluation goes through them one after another.
// Source of the bijection: a balanced Feistel network with cycle walking (Black, Rogaway 2002, section 3).
#pragma once

#include <cstdint>
#include <span>

namespace holdfast::model {

struct BatchShape {
  int64_t batch_size = 0;    // sequences in a microbatch
  int64_t block_size = 0;    // tokens in a sequence
  int64_t microbatches = 0;  // M, in a global batch

  int64_t tokens() const { return batch_size * block_size; }  // in a microbatch
};

struct DataOrder {
  uint64_t seed = 0;
  int64_t windows = 0;  // at least 1

  // The window that place `place` of pass `pass` visits.
  int64_t window_at(int64_t pass, int64_t place) const;
};

// At least 1, where there are more than block_size tokens.
int64_t windows_in(std::span<const uint16_t> tokens, int64_t block_size);

// One row: the block_size tokens from `first` on, and the same shifted by one.
void copy_window(std::span<const uint16_t> tokens, size_t first, std::span<int32_t> inputs, std::span<int32_t> targets);

// The evaluation order: windows one after another, no shuffle; microbatch m has rows m*batch_size... modulo windows.
// inputs and targets: (batch_size, block_size) each.
void fill_evaluation(std::span<const uint16_t> tokens, const BatchShape& shape, int64_t microbatch, std::span<int32_t> inputs,
                     std::span<int32_t> targets);

// The proof of the data that a worker trained on: XXH3-64 of (step, microbatch, the inputs and targets). The sum modulo 2^64
// over a step's microbatches does not depend on who computed which: the ledger keeps it, `holdfast audit` computes it again.
uint64_t microbatch_digest(int64_t step, int64_t microbatch, std::span<const int32_t> inputs, std::span<const int32_t> targets);

}  // namespace holdfast::model

// Which tokens microbatch m of step s trains on: a pure function, so any worker can compute any microbatch.
//
// The file is cut into windows of block_size tokens (plus one for the last target); window w starts at token
// w * block_size. Pass p visits the windows in a pseudo-random order that depends on (seed, p) alone: a bijection, so
// each window is consumed once per pass. Sequence number q = (step * microbatches + microbatch) * batch_size + row
// belongs to pass q / windows, place q % windows; a global batch may straddle two passes.
// Source of the bijection: a balanced Feistel network with cycle walking (Black, Rogaway 2002, section 3).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace holdfast::model {

struct DataOrder {
  uint64_t seed = 0;
  int64_t windows = 0;       // at least 1: (tokens - 1) / block_size
  int64_t batch_size = 0;    // sequences in a microbatch
  int64_t block_size = 0;    // tokens in a sequence
  int64_t microbatches = 0;  // M, in a global batch

  // The window that place `place` of pass `pass` visits.
  int64_t window_at(int64_t pass, int64_t place) const;
  // Pass and window of every row of a microbatch.
  int64_t pass_of(int64_t step, int64_t microbatch, int64_t row) const;
  int64_t window_of(int64_t step, int64_t microbatch, int64_t row) const;
  // inputs and targets: (batch_size, block_size) each; targets are inputs shifted by one.
  void fill(std::span<const uint16_t> tokens, int64_t step, int64_t microbatch, std::span<int32_t> inputs,
            std::span<int32_t> targets) const;
  // The evaluation order: windows one after another, no shuffle; microbatch m has rows m*batch_size... modulo windows.
  void fill_evaluation(std::span<const uint16_t> tokens, int64_t microbatch, std::span<int32_t> inputs,
                       std::span<int32_t> targets) const;
};

// The proof of the data that a worker trained on: XXH3-64 of (step, microbatch, the inputs and targets). The sum modulo 2^64
// over a step's microbatches does not depend on who computed which: the ledger keeps it, `holdfast audit` computes it again.
uint64_t microbatch_digest(int64_t step, int64_t microbatch, std::span<const int32_t> inputs, std::span<const int32_t> targets);

}  // namespace holdfast::model

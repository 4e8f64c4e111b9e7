// Stands for parameters and optimizer state: a hash chain over the steps, so that a wrong state, a step applied twice and a
// microbatch counted twice or not at all all show in its bits.
#pragma once

#include <fmt/format.h>

#include <bit>
#include <cstdint>
#include <string>
#include <vector>

#include "rendezvous/protocol/job_spec.h"

namespace holdfast::sim {

struct ModelState {
  int64_t step = 0;
  uint64_t bits = 0;
  std::vector<int64_t> born;  // by step: the generation in which it was applied. Not part of the bits.

  std::string hash() const { return fmt::format("{:016x}", bits); }
};

inline uint64_t mixed(uint64_t a, uint64_t b) {  // splitmix64's finish
  uint64_t z = (a ^ (b * 0x9e3779b97f4a7c15U)) + 0x9e3779b97f4a7c15U;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9U;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebU;
  return z ^ (z >> 31);
}

// A job's recipe, which is a part of its bits: a worker that trained by another spec than the job's would show.
inline uint64_t recipe_of(const rendezvous::JobSpec& spec) {
  uint64_t bits = mixed(std::bit_cast<uint64_t>(spec.dropout), static_cast<uint64_t>(spec.seed));
  for (const std::string* word : {&spec.biases, &spec.tied_head, &spec.lr_schedule}) {
    for (const char letter : *word) bits = mixed(bits, static_cast<uint64_t>(letter));
  }
  return bits;
}

// The gradient of a microbatch of the step that follows state `step`. It depends on the state, as gradients do.
inline uint64_t gradient_of(const ModelState& state, int64_t microbatch, uint64_t recipe) {
  return mixed(mixed(state.bits, recipe), static_cast<uint64_t>(microbatch) + 1);
}

// The tokens of that microbatch.
inline uint64_t tokens_of(int64_t step, int64_t microbatch) {
  return mixed(static_cast<uint64_t>(step) + 77, static_cast<uint64_t>(microbatch));
}

inline ModelState initial_state() {
  return {0, mixed(1, 2), {}};
}

// `gradient`: the sum over all microbatches of the step.
inline void apply_step(ModelState& state, uint64_t gradient, int64_t generation) {
  state.bits = mixed(state.bits, gradient);
  ++state.step;
  state.born.push_back(generation);
}

// A step whose gradient is not finite: the parameters stay as they are. The mark stands for the number of the step.
inline void leave_out_step(ModelState& state, int64_t generation) {
  constexpr uint64_t kLeftOut = 0x1ef7;
  state.bits = mixed(state.bits, kLeftOut);
  ++state.step;
  state.born.push_back(generation);
}

}  // namespace holdfast::sim

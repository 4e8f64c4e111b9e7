// Which power of two turns a tensor's gradients into integers of 32 or 16 bits.
//
// A step has M microbatches. Each one's gradient x becomes round(x * 2^e), and the M integers are summed. While none of them is
// above floor((2^(bits - 1) - 1) / M) no sum can leave the integers, whoever computed which microbatch and in whatever order
// the sums are taken. The tied embedding brings two: of the head's part and of the encoder's, which are rounded apart.
//
// So |x| * 2^e <= limit is asked of every element of every microbatch, or of the sum of both parts' largest magnitudes, with
//   limit = floor((2^(bits - 1) - 1) / M) - 1
// Then both together are at most limit + 1. For let h + e <= limit, both at least 0, h = a + f and e = b + g with whole a, b
// and 0 <= f, g < 1. Rounding takes h to a or a + 1 and e to b or b + 1, upwards only from 1/2 on. If it takes both upwards,
// then f + g >= 1, so a + b + 1 <= h + e <= limit, and a + b + 2 <= limit + 1. If only one, h: from f >= 1/2, so a + b < limit
// and a + b + 1 <= limit. (One part alone: the same with e = 0.)
//
// Step s uses exponents that were chosen from the largest magnitudes of step s - 1, with some headroom. A microbatch whose
// largest magnitude does not fit overflows: a property of the microbatch and the state alone. Then the tensor's exponent
// is chosen again from the largest magnitudes of step s itself, without headroom, and it is packed again. The exponents
// for step s + 1 come from the magnitudes of step s in either case. So all of it is a function of state and data.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace holdfast::worker {

// Measured on a small model: gradients rarely grow by more than 2^2 from one step to the next; 2^6 makes a second pass
// over the microbatches rare at a cost of 6 of 31 bits, which leaves more than a float32's 24 with up to 2 microbatches
// and as good as that with 64 (the mean over them wins the bits back). Of 15 bits there are none to spare: 2 bits of headroom
// train as well as a scale that fits exactly, with a tensor to be packed again in one step of twenty; with 1 bit it was ten
// times as many.
constexpr int headroom_bits(int bits) {
  return bits == 16 ? 2 : 6;
}

// 2^e and 2^-e / M stay normal floats.
inline constexpr int32_t kExponentMin = -126, kExponentMax = 100;

// The largest magnitude, in units of 2^-e, that one microbatch's parts may have together; of integers with so many bits: 32 or
// 16. At least 1 with up to 16383 microbatches in 16 bits.
int64_t fixed_limit(int64_t microbatches, int bits);

// At least a + b; both are at least 0. A sum between two floats is rounded up.
float sum_at_least(float a, float b);

// Whether `largest` (finite, at least 0) does not fit under `exponent`; an unset exponent fits nothing.
bool overflows(float largest, int32_t exponent, int64_t limit);

// The largest e with largest * 2^headroom * 2^e <= limit, within the bounds; `when_zero` for a tensor of zeros.
int32_t choose_exponent(float largest, int headroom, int64_t limit, int32_t when_zero);

// The exponent of a tensor of zeros: the one that it has, or 0 before the first.
int32_t exponent_of_zeros(int32_t exponent);

// The factor that makes a sum under `exponent` the mean over `dealt_units`.
float mean_scale(int32_t exponent, int64_t dealt_units);

// The decisions of one job: which exponents a step is packed under. Every rank decides the same, because `maxima`, the largest
// magnitudes over all ranks, are the same on all. Exponents and maxima have one entry for each tensor of the table.
class ExponentRule {
 public:
  // `bits` of the integers: 32 or 16. `dealt_units` are summed in a step: microbatches, or replicas.
  ExponentRule(int64_t dealt_units, int bits) : bits_(bits), limit_(fixed_limit(dealt_units, bits)) {}

  bool overflows(float largest, int32_t exponent) const { return worker::overflows(largest, exponent, limit_); }

  // The step is packed again under these, because some tensors overflowed: their exponents are chosen again, without headroom;
  // the other tensors keep theirs. Empty when nothing overflowed.
  std::vector<int32_t> for_repack(std::span<const int32_t> exponents, std::span<const float> maxima) const;
  // A step before which there are none, from the largest magnitudes of its first microbatch alone: with headroom. All unset
  // where these are not finite.
  std::vector<int32_t> for_first_step(std::span<const float> maxima) const;
  // The step after the one whose magnitudes these are.
  std::vector<int32_t> for_next_step(std::span<const int32_t> exponents, std::span<const float> maxima) const;

 private:
  int bits_;
  int64_t limit_;
};

}  // namespace holdfast::worker

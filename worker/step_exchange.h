// What the ranks tell each other once per step, before the gradients are reduced: one small all-gather.
//
// Promises: from the same reports every rank draws the same conclusions; sums are of integers, so they do not depend on
// who computed what. A report that was not written by this code is refused with a reason.
//
// Layout, little-endian: magic "HFX2" (u32), step (i64), flags (u32), loss (i64), data digest (u64), acknowledged step
// (i64), refused steps (i64), microseconds of computing (i64), number of maxima (u32), maxima (f32 each).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <tl/expected.hpp>
#include <vector>

namespace holdfast::worker {

// The sum of the losses of microbatches as an integer: 2^-32 units. Losses stay far below 2^20 or are not finite.
int64_t loss_to_fixed(double loss);
double loss_from_fixed(int64_t sum, int64_t count);

struct StepReport {
  int64_t step = 0;            // before it is applied
  bool yield = false;          // stop after this step
  bool checkpoint = false;     // and write a checkpoint
  bool leaving = false;        // this rank wants out (implies yield)
  bool finite = true;          // of losses and gradients
  int64_t loss = 0;            // fixed point, sum over own microbatches
  uint64_t data_digest = 0;    // sum of microbatch_digest over own microbatches
  int64_t acknowledged = 0;    // newest step that the service has in its books, as far as this rank knows
  int64_t refused_in_row = 0;  // steps directly before this one that were refused, as far as this rank knows
  int64_t compute_us = 0;      // that this rank's microbatches took, without waiting for others
  std::vector<float> maxima;   // largest magnitude per tensor, over own microbatches; empty for the float reduction
  bool operator==(const StepReport&) const = default;
};

std::vector<std::byte> encode(const StepReport& report);
tl::expected<StepReport, std::string> decode_step_report(std::span<const std::byte> bytes);

struct StepAgreement {
  bool yield = false, checkpoint = false, all_leaving = false, finite = true;
  int64_t loss = 0;
  uint64_t data_digest = 0;
  int64_t acknowledged = 0, refused_in_row = 0;
  std::vector<int64_t> compute_us;  // by rank
  std::vector<float> maxima;
};

// States that should be the same are not.
struct Disagreement {
  std::string text;      // which ranks disagree about what
  std::vector<int> odd;  // ranks whose state differs from that of more than half of all; empty: nobody can tell who is wrong
};

// Every rank's hash of the state after `step`, by rank; nothing when all are the same.
std::optional<Disagreement> compare_hashes(int64_t step, std::span<const std::string> hashes);

// `reports` by rank, at least one.
tl::expected<StepAgreement, Disagreement> agree(std::span<const StepReport> reports);

}  // namespace holdfast::worker

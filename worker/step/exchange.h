// The reports that the ranks exchange once per step, before the gradients are reduced: one small all-gather.
//
// Promises: from the same reports every rank draws the same conclusions. Sums are of integers, so they do not depend on which
// rank computed which microbatch. A report in another layout is refused with a reason.
//
// Layout, little-endian: magic "HFX2" (u32), step (i64), flags (u32), loss (i64), tokens digest (u64), acknowledged step
// (i64), refused steps (i64), microseconds of computing (i64), number of maxima (u32), maxima (f32 each).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <tl/expected.hpp>
#include <vector>

namespace holdfast::worker {

struct StepReport {
  int64_t step = 0;            // before it is applied
  bool yield = false;          // stop after this step
  bool checkpoint = false;     // stop after this step, and write a checkpoint
  bool leaving = false;        // this rank wants to leave (implies yield)
  bool finite = true;          // losses and gradients
  int64_t loss = 0;            // fixed point, sum over own microbatches
  uint64_t tokens_digest = 0;  // sum of microbatch_digest over own microbatches
  int64_t acknowledged = 0;    // newest step that the service has in its books, as far as this rank knows
  int64_t refused_in_row = 0;  // steps directly before this one that were refused, as far as this rank knows
  int64_t compute_us = 0;      // duration of this rank's microbatches, without waiting for other ranks
  std::vector<float> maxima;   // largest magnitude per tensor, over own microbatches; empty for the float reduction
  bool operator==(const StepReport&) const = default;
};

std::vector<std::byte> encode(const StepReport& report);
tl::expected<StepReport, std::string> decode_step_report(std::span<const std::byte> bytes);

struct StepAgreement {
  bool yield = false, checkpoint = false, all_leaving = false, finite = true;
  int64_t loss = 0;
  uint64_t tokens_digest = 0;
  int64_t acknowledged = 0, refused_in_row = 0;
  std::vector<int64_t> compute_us;  // by rank
  std::vector<float> maxima;
};

// States that should be the same differ.
struct Disagreement {
  std::string text;      // which ranks disagree about what
  std::vector<int> odd;  // ranks that differ from more than half of all; empty: no side has more than half
};

// Compares every rank's hash of the state after `step`, by rank. Nothing when all are the same.
std::optional<Disagreement> compare_hashes(int64_t step, std::span<const std::string> hashes);

// A rank's verdict on a step that it has applied or refused. The step is committed when all verdicts are the same.
struct StepVerdict {
  int64_t step = 0;  // after it
  uint64_t tokens_digest = 0;
  bool refused = false;
  bool operator==(const StepVerdict&) const = default;
};
// Layout, little-endian: step (i64), tokens digest (u64), refused (u8).
std::vector<std::byte> encode(const StepVerdict& verdict);
// `verdicts` as encoded, by rank. An empty one comes from an older release, which says nothing here: it is passed over.
// Nothing when all others are the same.
std::optional<Disagreement> compare_verdicts(std::span<const std::vector<std::byte>> verdicts);

// `reports` by rank, at least one.
tl::expected<StepAgreement, Disagreement> agree(std::span<const StepReport> reports);

}  // namespace holdfast::worker

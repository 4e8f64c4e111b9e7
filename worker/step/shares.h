// Which rank computes which microbatches of a step that an earlier generation had begun.
//
// The microbatches that a rank finished stay in its sums when the reduction fails. The members of the next generation tell
// each other which ones they kept, and only the rest is dealt: the microbatches of ranks that are gone, and those that no
// rank had finished.
// Pure: from the same lists every rank draws the same shares.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "rendezvous/protocol/messages.h"

namespace holdfast::worker {

using Microbatches = std::vector<int64_t>;  // ascending

struct StepShares {
  std::vector<Microbatches> to_compute;  // by rank: to be computed
  std::vector<Microbatches> own;         // by rank: in its sums at the end, kept or computed. Each microbatch has one owner
  std::vector<bool> keeps;               // by rank: whether its kept microbatches count; if not it starts anew
  int64_t kept = 0;                      // microbatches that need not be computed again
};

// `kept` by rank. If two ranks kept the same microbatch, the lower rank's counts, and the other rank starts anew. The rest
// goes, in runs, to the ranks that have least. If nothing was kept: contiguous shares, as rendezvous::deal says.
// `computing` by rank, at least one: those that can compute, others get nothing; empty: all can.
StepShares deal_rest(int64_t microbatches, const std::vector<Microbatches>& kept, const std::vector<bool>& computing = {});

// The numbers of microbatches of each rank where those that can compute have contiguous shares, as rendezvous::deal says.
std::vector<int64_t> even_counts(int64_t microbatches, const std::vector<bool>& computing);

// Ends the process (worker/invariants/invariant.h) unless each of the step's microbatches belongs to exactly one rank. `step`
// is the state's step before it, for the message.
void require_dealt_once(const StepShares& shares, int64_t microbatches, int64_t step);

// Contiguous shares in rank order, with these numbers of microbatches; nothing kept.
StepShares deal_counts(std::span<const int64_t> counts);

// For the ledger: the runs of microbatches of each rank; empty where they are as rendezvous::deal says. Each dealt unit
// stands for `microbatches` microbatches, in order: 1, or a replica's.
std::vector<rendezvous::DealtShare> for_ledger(const StepShares& shares, int64_t microbatches = 1);

// Layout, little-endian: magic "HFK1" (u32), number (u32), microbatches (i64 each).
std::vector<std::byte> encode_kept(std::span<const int64_t> kept);
// The error says why the bytes are refused: another layout, not ascending, or not below `microbatches`.
tl::expected<Microbatches, std::string> decode_kept(std::span<const std::byte> bytes, int64_t microbatches);

}  // namespace holdfast::worker

// Who computes which microbatches of a step that an earlier generation had begun.
//
// What a rank has finished of a step stays in its sums when the reduction fails. The members of the next generation tell
// each other what they kept, and only the rest is dealt: the microbatches of those who are gone, and those that nobody had
// come to. Pure: from the same lists every rank draws the same shares.
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
  std::vector<Microbatches> own;         // by rank: in its sums in the end, kept or computed; together each microbatch once
  std::vector<bool> keeps;               // by rank: whether what it had kept counts; if not it starts anew
  int64_t kept = 0;                      // microbatches that need not be computed again
};

// `kept` by rank. Where two ranks kept the same microbatch the lower one counts, and the other starts anew. The rest goes to
// those who have least, in runs. Nothing kept: contiguous shares, as rendezvous::deal says.
StepShares deal_rest(int64_t microbatches, const std::vector<Microbatches>& kept);

// Contiguous shares in rank order, so many for each rank; nothing kept.
StepShares deal_counts(std::span<const int64_t> counts);

// For the ledger: whose microbatches are whose, in runs; empty where it is as rendezvous::deal says. Each of what was dealt
// stands for so many `microbatches`, in order: 1, or a replica's.
std::vector<rendezvous::DealtShare> for_ledger(const StepShares& shares, int64_t microbatches = 1);

// Layout, little-endian: magic "HFK1" (u32), number (u32), microbatches (i64 each).
std::vector<std::byte> encode_kept(std::span<const int64_t> kept);
// The error says what is wrong: not this layout, not ascending, or not below `microbatches`.
tl::expected<Microbatches, std::string> decode_kept(std::span<const std::byte> bytes, int64_t microbatches);

}  // namespace holdfast::worker

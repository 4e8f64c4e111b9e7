// A process's memory of a state that is divided: by chunk, the bits of the state to which its part (parameters and moments)
// belongs, and those of its compute copy. So a part of another step, or one that never came, shows.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "rendezvous/protocol/job_spec.h"
#include "tests/sim/training/model_state.h"
#include "worker/state/divided/judge_holdings.h"
#include "worker/state/divided/owners.h"

namespace holdfast::sim {

constexpr size_t kChunks = 7;

// As kinds_of_told of worker/state/divided/holdings.h says: in float32 compute copies are the parameters, in 16 bits they are
// apart, and with `shard` parameters they do not stay.
inline worker::PieceKinds kinds_of(const rendezvous::JobSpec& spec) {
  worker::PieceKinds kinds{kChunks, 3 * kChunks + 1, std::nullopt};
  if (!spec.divides_parameters()) kinds.copies_at = spec.dtype == "float32" ? 0 : kinds.hashed;
  return kinds;
}

inline storage::PieceDigest digest_of(uint64_t bits, size_t piece) {
  const uint64_t word = mixed(bits, piece);
  storage::PieceDigest digest;
  std::memcpy(digest.bytes.data(), &word, sizeof word);
  return digest;
}

// The hash of a state whose pieces are all there and right.
inline std::string hash_of_pieces(uint64_t bits) {
  std::vector<storage::PieceDigest> digests;
  for (size_t piece = 0; piece <= 3 * kChunks; ++piece) digests.push_back(digest_of(bits, piece));
  return storage::state_hash_of(digests);
}

struct DividedMemory {
  std::vector<uint64_t> parts = std::vector<uint64_t>(kChunks), copies = parts;
  std::vector<bool> sound = std::vector<bool>(kChunks), copied = sound;

  // Own parts come from there, and all copies.
  void fill(uint64_t bits) {
    parts.assign(kChunks, bits);
    copies.assign(kChunks, bits);
  }

  void settle(const worker::Ownership& ownership, size_t rank) {
    const auto owned = owned_by(ownership, rank), lacked = lacked_by(ownership, rank),
               to_come = copies_to_come(ownership, rank);
    for (size_t c = 0; c < kChunks; ++c) {
      sound[c] = owned[c] && !lacked[c];
      copied[c] = !to_come[c];
      if (!owned[c]) parts[c] = 0;
    }
  }

  // A part that was of another state is of none after that.
  void apply(uint64_t before, uint64_t after) {
    for (size_t c = 0; c < kChunks; ++c) {
      if (!sound[c]) continue;
      advance(parts[c], before, after);
      copies[c] = parts[c];
    }
  }

  // Parameters stay as they are; the state's bits stand for its step, too.
  void leave_out(uint64_t before, uint64_t after) {
    for (size_t c = 0; c < kChunks; ++c) {
      if (sound[c]) advance(parts[c], before, after);
      if (copied[c]) advance(copies[c], before, after);
    }
  }

  // A copy comes from an owner, as differences from the one of before where copies are `apart`.
  void take_copy(size_t chunk, uint64_t from, bool apart, uint64_t before) {
    apart ? advance(copies[chunk], before, from) : void(copies[chunk] = from);
  }

  worker::Held held(const std::string& node, bool counts, const worker::PieceKinds& kinds, const ModelState* state) const {
    const bool has_all_copies = std::ranges::find(copied, false) == copied.end();
    worker::Held word{node, counts, !counts || !has_all_copies, worker::PieceDigests(kinds.hashed)};
    for (size_t c = 0; c < kChunks; ++c) {
      for (const size_t piece : {c, kChunks + c, 2 * kChunks + c}) {
        if (sound[c]) word.digests[piece] = digest_of(parts[c], piece);
      }
    }
    if (state != nullptr) word.digests[3 * kChunks] = digest_of(state->bits, 3 * kChunks);
    if (!kinds.copies_at) return word;
    word.digests.resize(std::max(kinds.hashed, *kinds.copies_at + kChunks));
    for (size_t c = 0; c < kChunks; ++c) {
      const size_t piece = *kinds.copies_at + c;
      if (copied[c]) word.digests[piece] = digest_of(copies[c], piece);
      if (!copied[c]) word.digests[piece] = std::nullopt;
    }
    return word;
  }

 private:
  static void advance(uint64_t& bits, uint64_t before, uint64_t after) { bits = bits == before ? after : mixed(bits, after); }
};

}  // namespace holdfast::sim

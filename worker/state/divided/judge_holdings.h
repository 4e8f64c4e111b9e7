// The words of ranks on what they hold of a divided state, judged: whose bytes count, and who has them right. Pure: from the
// same words every rank draws the same conclusions.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "storage/state_hash.h"
#include "worker/state/divided/routes.h"

namespace holdfast::worker {

using PieceDigests = std::vector<std::optional<storage::PieceDigest>>;  // by piece

// A rank's word.
struct Held {
  std::string node;
  bool counts = false;  // its state is of the step that is wanted, so that its chunks count
  bool is_new = false;  // they do not, or compute copies were still to come to it
  PieceDigests digests;
};

// The pieces of a state of so many chunks: three of each chunk, then what belongs to no chunk; then compute copies, where these
// are apart and stay.
struct PieceKinds {
  size_t chunks = 0;
  size_t hashed = 0;  // the first, which are the state's
  std::optional<size_t>
      copies_at;  // the one that is the first chunk's compute copy, where copies stay: in float32 it is piece 0
};

struct Holdings {
  std::vector<std::string> nodes;           // by rank, the machine that it is on
  std::vector<storage::PieceDigest> right;  // by piece
  std::vector<RankSet> has;                 // by piece, who has the right bytes
  std::vector<size_t> lost;                 // chunks that nobody has; then some of `right` mean nothing
  std::vector<int> odd;                     // ranks with other bytes than those that count
  RankSet newcomers;                        // their chunks do not count, or copies were still to come to them
  std::optional<std::string> differs;       // owners have different bytes, and no more than half of them the same: where

  PieceKinds pieces;

  std::string hash() const { return storage::state_hash_of(std::span(right).first(pieces.hashed)); }
};

// The words of all ranks, by rank, at least one; each of them about these pieces.
Holdings judge_holdings(std::vector<Held> held, const PieceKinds& pieces);

}  // namespace holdfast::worker

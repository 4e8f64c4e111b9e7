// The holdings of the ranks of a divided state, piece by piece, and whose bytes count.
//
// The moments of a chunk are with its owners alone, and so are the parameters that count; all ranks compute with copies of
// these. Every rank tells the digests of what it holds, so that all draw the same conclusions: what the state is and its hash,
// who has which piece right, and which chunks nobody has any more. Promises: the hash is that of the whole state, as of one
// that is not divided (storage/state_hash.h). Thread: the one that calls collectives, which is the ops' own.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "storage/state_hash.h"
#include "worker/session/run_stop.h"
#include "worker/session/session.h"
#include "worker/state/divided/routes.h"

namespace holdfast::worker {

struct Holdings {
  std::vector<std::string> nodes;           // by rank, the machine that it is on
  std::vector<storage::PieceDigest> right;  // by piece
  std::vector<RankSet> has;                 // by piece, who has the right bytes
  std::vector<size_t> lost;                 // chunks that nobody has; then some of `right` mean nothing
  std::vector<int> odd;                     // ranks with other bytes than those that count
  RankSet newcomers;                        // their chunks do not count, or copies were still to come to them
  std::optional<std::string> differs;       // owners have different bytes, and no more than half of them the same: where

  size_t hashed = 0;     // the first pieces, which are the state's; compute copies that are apart come after them
  size_t copies_at = 0;  // the piece that is the first chunk's compute copy, where copies stay

  std::string hash() const { return storage::state_hash_of(std::span(right).first(hashed)); }
};

using PieceDigests = std::vector<std::optional<storage::PieceDigest>>;  // by piece

// The pieces that ranks tell of: those of the state; then the compute copies of all chunks, where these are apart and stay.
std::vector<model::StatePiece> told_pieces(const Session& session);
// Of these the first chunk's compute copy, where copies stay: others follow it. In float32 copies are the parameters.
size_t copies_among_told(const Session& session);
PieceDigests digests_of_told(const Session& session);
// The same where all pieces but those that `came` are as they were when `before` was taken.
PieceDigests digests_of_told(const Session& session, PieceDigests before, const std::vector<bool>& came);

// `digests`: this rank's own, of told_pieces. `counts`: its state is of the step that is wanted, so that its chunks
// count; of these, the sound ones.
RunResult<Holdings> gather_holdings(Communicator& ring, const Session& session, const std::string& node, bool counts,
                                    PieceDigests digests);

}  // namespace holdfast::worker

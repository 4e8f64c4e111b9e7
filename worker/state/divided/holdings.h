// The holdings of the ranks of a divided state, piece by piece, and whose bytes count.
//
// The moments of a chunk are with its owners alone, and so are the parameters that count; all ranks compute with copies of
// these. Every rank tells the digests of what it holds, so that all draw the same conclusions: what the state is and its hash,
// who has which piece right, and which chunks nobody has any more. Promises: the hash is that of the whole state, as of one
// that is not divided (storage/state_hash.h). Thread: the one that calls collectives, which is the ops' own.
#pragma once

#include <string>
#include <vector>

#include "worker/session/run_stop.h"
#include "worker/session/session.h"
#include "worker/state/divided/judge_holdings.h"

namespace holdfast::worker {

// The pieces that ranks tell of: those of the state; then the compute copies of all chunks, where these are apart and stay.
std::vector<model::StatePiece> told_pieces(const Session& session);
PieceKinds kinds_of_told(const Session& session);
// Of pieces that are right as far as this rank knows: a newcomer does not digest memory that it has just taken.
PieceDigests digests_of_told(const Session& session);
// The same, as far as they are not among those that were made early, of the step that this rank holds.
PieceDigests digests_of_told(const Session& session, const Session::Digested& early);
// The same where all pieces but those that `came` are as they were when `before` was taken.
PieceDigests digests_of_told(const Session& session, PieceDigests before, const std::vector<bool>& came);

// `digests`: this rank's own, of told_pieces. `counts`: its state is of the step that is wanted, so that its chunks
// count; of these, the sound ones.
RunResult<Holdings> gather_holdings(Communicator& ring, const Session& session, const std::string& node, bool counts,
                                    PieceDigests digests);

}  // namespace holdfast::worker

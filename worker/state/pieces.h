// A state on its way to ranks that lack it: cut into pieces with hashes, and passed along the ring.
//
// On the ring, each run of ranks that lack the state follows a rank that holds it. The first of the run receives from that
// holder and passes on what it receives. So all holders with a receiver behind them send at once, no link carries a piece
// twice, and no link between two holders carries any. However many ranks join, the copy takes the time that one link needs
// for the bytes once, and a piece's time for each further receiver in a row.
// Resumable: a receiver hashes the bytes in its memory and asks only for the pieces that differ, so a copy that broke off
// goes on in the next generation. A piece that arrives with another hash than the holders' is fetched from another holder.
// Promises: on success every rank's pieces have the hashes of the first holder.
// Refuses: to go on when no holder can send a piece that has its hash.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "model/state/host_state.h"
#include "worker/session/run_stop.h"

namespace holdfast::worker {

inline constexpr size_t kPieceBytes = 4 << 20;

// The pieces in tensor order; none lies across two tensors. Valid as long as `state`.
std::vector<std::span<std::byte>> cut_into_pieces(const model::HostState& state);

struct PieceCopy {
  int64_t bytes = 0;                  // received by this rank
  int64_t had_before = 0;             // bytes that a copy which broke off had left in this rank's memory
  int64_t bytes_most = 0;             // the most that one rank received
  std::vector<size_t> fetched_again;  // pieces that first came altered, on any rank
};

// `holds` by rank; at least one does. All ranks have the same number of pieces of the same sizes.
RunResult<PieceCopy> copy_pieces(Communicator& ring, std::span<const std::span<std::byte>> pieces,
                                 const std::vector<bool>& holds);

}  // namespace holdfast::worker

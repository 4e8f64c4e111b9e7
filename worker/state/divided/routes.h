// Pieces of a divided state on their way round the ring, from ranks that have them to ranks that want them.
//
// On the ring each run of ranks that lack a piece follows a rank that has it. The first of the run receives from there and
// passes on what it receives, as far as the last of the run that wants it; ranks in between that want nothing only pass it on.
// So no link carries a piece twice, and all ranks that have pieces send at once. Promises: on success every rank that wanted a
// piece has its bytes. Nobody checks them here. Memory: kRouteBytes for pieces that are only passed on, and for copies of those
// that are on a device. Thread: the one that calls collectives, which is the ops' own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/ops.h"
#include "worker/collectives/communicator.h"

namespace holdfast::worker {

inline constexpr size_t kRouteBytes = 8 << 20;

// By rank. A rank that has a piece does not want it.
using RankSet = std::vector<bool>;

struct Way {
  bool receives = false, sends = false;
  bool operator==(const Way&) const = default;
};
// The part of rank `me` in a piece's way. Somebody has it, unless nobody wants it.
Way way_of(const RankSet& has, const RankSet& wants, int me);

struct RoutedPiece {
  std::byte* data = nullptr;  // where it is, or is wanted; null: it is only passed on
  size_t bytes = 0;
  bool on_host = false;  // else in memory of the ops
  Way way;
};

// All ranks call it with the same pieces in the same order, each with its own part in them. They go in several operations, and
// before each of them the fault point `point` (drills/fault_points.h) is passed, at `step`. Returns the bytes that this rank
// received for itself.
CollectiveResult<int64_t> route(Communicator& ring, kernels::DeviceOps& ops, std::span<const RoutedPiece> pieces,
                                const char* point, int64_t step);

}  // namespace holdfast::worker

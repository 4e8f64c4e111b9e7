#include "worker/state/divided/routes.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "worker/drills/fault_points.h"

namespace holdfast::worker {
namespace {

// Ranks that carry nothing see only the operations' headers: these must come often enough that they do not take their
// neighbours for stuck.
constexpr size_t kOperationsMin = 4;

// Whether rank `r` is handed the piece: it lacks it, and wants it or precedes one that does, with none between that has it.
bool is_handed(const RankSet& has, const RankSet& wants, size_t r) {
  for (size_t k = 0; k < has.size(); ++k) {
    const size_t rank = (r + k) % has.size();
    if (has[rank]) return false;
    if (wants[rank]) return true;
  }
  return false;
}

class Routing {
 public:
  Routing(Communicator& ring, kernels::DeviceOps& ops) : ring_(ring), ops_(ops) {}

  CollectiveResult<void> run(std::span<const RoutedPiece> pieces) {
    std::vector<std::span<const std::byte>> outgoing;
    std::vector<std::span<std::byte>> incoming;
    size_t used = 0;
    std::vector<std::pair<const RoutedPiece*, std::byte*>> to_device;
    for (const RoutedPiece& piece : pieces) {
      if (!piece.way.receives && !piece.way.sends) continue;
      const bool in_place = piece.data != nullptr && (piece.on_host || ops_.memory_is_host());
      std::byte* const bytes = in_place ? piece.data : scratch() + std::exchange(used, used + piece.bytes);
      if (piece.way.receives) incoming.emplace_back(bytes, piece.bytes);
      if (piece.way.sends) outgoing.emplace_back(bytes, piece.bytes);
      if (in_place || piece.data == nullptr) continue;
      if (piece.way.receives) to_device.emplace_back(&piece, bytes);
      if (!piece.way.receives) ops_.copy_to_host(bytes, piece.data, piece.bytes);
    }
    if (auto passed = ring_.relay(outgoing, incoming); !passed) return passed;
    for (const auto& [piece, bytes] : to_device) ops_.copy_to_device(piece->data, bytes, piece->bytes);
    return {};
  }

 private:
  std::byte* scratch() {
    if (!scratch_) scratch_ = std::make_unique_for_overwrite<std::byte[]>(kRouteBytes);
    return scratch_.get();
  }

  Communicator& ring_;
  kernels::DeviceOps& ops_;
  std::unique_ptr<std::byte[]> scratch_;
};

}  // namespace

Way way_of(const RankSet& has, const RankSet& wants, int me) {
  const auto rank = static_cast<size_t>(me);
  return {.receives = is_handed(has, wants, rank), .sends = is_handed(has, wants, (rank + 1) % has.size())};
}

CollectiveResult<int64_t> route(Communicator& ring, kernels::DeviceOps& ops, std::span<const RoutedPiece> pieces,
                                const char* point, int64_t step) {
  if (ring.world_size() == 1) return 0;
  Routing routing(ring, ops);
  const size_t count_max = std::max<size_t>(pieces.size() / kOperationsMin, 1);
  int64_t received = 0;
  for (size_t first = 0; first < pieces.size();) {
    size_t last = first, bytes = 0;
    while (last < pieces.size() && last - first < count_max && (last == first || bytes + pieces[last].bytes <= kRouteBytes))
      bytes += pieces[last++].bytes;
    fault_point(point, step, ring.rank());
    if (auto passed = routing.run(pieces.subspan(first, last - first)); !passed) return tl::unexpected(passed.error());
    first = last;
  }
  for (const RoutedPiece& piece : pieces) {
    if (piece.way.receives && piece.data != nullptr) received += static_cast<int64_t>(piece.bytes);
  }
  return received;
}

}  // namespace holdfast::worker

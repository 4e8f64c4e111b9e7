#include "worker/state/divided/sharing.h"

#include <vector>

#include "worker/profile/span.h"
#include "worker/state/divided/owners.h"

namespace holdfast::worker {

RunResult<Collected> collect_state(Communicator& ring, Session& session) {
  const Span span(SpanKind::kRing, "the state for the checkpoint");
  const auto world_size = static_cast<size_t>(ring.world_size());
  const auto chunks = session.model->table().chunks();
  const auto here = session.state->pieces();
  const size_t count = static_cast<size_t>(session.model->table().total);
  Collected collected;
  RankSet first_rank(world_size);
  first_rank[0] = true;
  std::vector<RoutedPiece> pieces;
  const auto collect = [&](size_t which, std::shared_ptr<float[]>& to) {
    if (ring.rank() == 0) to = std::make_shared_for_overwrite<float[]>(count);
    for (size_t c = 0; c < chunks.size(); ++c) {
      const model::StatePiece& piece = here[which * chunks.size() + c];
      const RankSet owners = owners_of(session.placement, c, world_size);
      auto* const target = to == nullptr ? nullptr : reinterpret_cast<std::byte*>(to.get() + chunks[c].first);
      if (ring.rank() == 0 && owners[0]) session.ops->copy_to_host(target, piece.data, piece.bytes);
      const bool takes = ring.rank() == 0 && !owners[0];
      pieces.push_back({takes ? target : piece.data, piece.bytes, takes, way_of(owners, first_rank, ring.rank())});
    }
  };
  if (session.state->copies_apart()) collect(0, collected.parameters);
  collect(1, collected.exp_avg);
  collect(2, collected.exp_avg_sq);
  if (const auto passed = route(ring, *session.ops, pieces, "share", session.state->step); !passed)
    return tl::unexpected(ring_stop(passed.error()));
  return collected;
}

}  // namespace holdfast::worker

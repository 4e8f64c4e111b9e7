#include "worker/state/divided/parameter_gathering.h"

#include <utility>
#include <vector>

#include "model/parameter_views.h"
#include "worker/profile/span.h"
#include "worker/state/divided/owners.h"

namespace holdfast::worker {

ParameterGathering::ParameterGathering(Communicator& ring, Session& session) : ring_(ring), session_(session) {
  if (session_.model->copies_by_layer()) session_.model->set_bringer([this](int64_t layer) { bring(layer); });
}

ParameterGathering::~ParameterGathering() {
  if (session_.model->copies_by_layer()) session_.model->set_bringer(nullptr);
}

std::chrono::duration<double> ParameterGathering::take_time() {
  return std::exchange(in_ring_, std::chrono::duration<double>(0));
}

void ParameterGathering::bring(int64_t layer) {
  const Span span(SpanKind::kRing, "parameters of a layer", layer);
  const auto world_size = static_cast<size_t>(ring_.world_size());
  const RankSet all(world_size, true);
  const auto& table = session_.model->table();
  const auto chunks = table.chunks();
  std::vector<RoutedPiece> pieces;
  for (size_t c = 0; c < chunks.size(); ++c) {
    if (table.layer_of(table.cut(chunks[c]).front().tensor) != layer) continue;
    const RankSet holders = holders_of(session_.ownership, c, world_size);
    if (holders[static_cast<size_t>(ring_.rank())]) session_.state->refresh(c);
    const model::ComputeCopy copy = session_.model->copy_of(chunks[c]);
    pieces.push_back({copy.data, copy.bytes, false, way_of(holders, all, ring_.rank())});
  }
  const auto begin = std::chrono::steady_clock::now();
  if (!session_.ops->memory_is_host()) session_.ops->synchronize();
  const auto passed = route(ring_, *session_.ops, pieces, "gather", session_.state->step);
  in_ring_ += std::chrono::steady_clock::now() - begin;
  if (!passed) throw RingFailed{passed.error()};
}

}  // namespace holdfast::worker

#include "worker/state/divided/parameter_gathering.h"

#include <utility>
#include <vector>

#include "model/parameter_views.h"
#include "worker/profile/span.h"
#include "worker/state/divided/owners.h"

namespace holdfast::worker {

ParameterGathering::ParameterGathering(Communicator& ring, Session& session) : ring_(ring), session_(session) {
  if (!session_.model->copies_by_layer()) return;
  session_.model->set_bringer(
      {.begin = [this](int64_t layer) { begin(layer); }, .finish = [this](int64_t layer) { finish(layer); }});
}

ParameterGathering::~ParameterGathering() {
  if (session_.model->copies_by_layer()) session_.model->set_bringer({});
}

void ParameterGathering::go_through(CollectiveQueue* queue) {
  queue_ = queue;
  under_way_.clear();
}

std::chrono::duration<double> ParameterGathering::take_time() {
  return std::exchange(in_ring_, std::chrono::duration<double>(0));
}

// Owners make theirs here; the rest is for whoever has the ring.
void ParameterGathering::begin(int64_t layer) {
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
  const int64_t step = session_.state->step;
  if (queue_ != nullptr) {
    under_way_[layer] =
        queue_->add([this, step, pieces = std::move(pieces)] { return carry(pieces, step); }, "parameters of a layer", layer);
    return;
  }
  const Span span(SpanKind::kRing, "parameters of a layer", layer);
  const auto begun = std::chrono::steady_clock::now();
  if (!session_.ops->memory_is_host()) session_.ops->synchronize();
  const auto carried = carry(pieces, step);
  in_ring_ += std::chrono::steady_clock::now() - begun;
  if (!carried) throw RingFailed{carried.error()};
}

void ParameterGathering::finish(int64_t layer) {
  const auto found = under_way_.find(layer);
  if (found == under_way_.end()) return;
  const Span span(SpanKind::kWait, "wait for parameters of a layer", layer);
  const auto begun = std::chrono::steady_clock::now();
  queue_->await(found->second);
  in_ring_ += std::chrono::steady_clock::now() - begun;
  under_way_.erase(found);
}

CollectiveResult<void> ParameterGathering::carry(const std::vector<RoutedPiece>& pieces, int64_t step) {
  const auto passed = route(ring_, *session_.ops, pieces, "gather", step);
  if (!passed) return tl::unexpected(passed.error());
  return {};
}

}  // namespace holdfast::worker

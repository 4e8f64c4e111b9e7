#include "worker/checkpoints/state_to_write.h"

#include <cstring>
#include <set>
#include <utility>

namespace holdfast::worker {
namespace {

// Null where all bytes are the host's.
storage::CheckpointWriter::CopyBytes copying_from(Session& session, std::set<const std::byte*> on_host) {
  if (session.ops->memory_is_host()) return nullptr;
  return [&ops = *session.ops, on_host = std::move(on_host)](std::byte* to, std::span<const std::byte> from) {
    if (on_host.contains(from.data())) {
      std::memcpy(to, from.data(), from.size());
    } else {
      ops.copy_to_host(to, from.data(), from.size());
    }
  };
}

}  // namespace

StateToWrite state_of(Session& session, std::string state_hash) {
  StateToWrite state;
  state.step = session.state->step;
  state.state_hash = std::move(state_hash);
  std::set<const std::byte*> on_host;
  for (const model::StateTensor& tensor : session.state->tensors()) {
    if (tensor.on_host) on_host.insert(tensor.data);
    state.tensors.push_back({tensor.name, tensor.dtype, tensor.shape, {tensor.data, tensor.bytes}});
  }
  state.copy = copying_from(session, std::move(on_host));
  if (session.ops->memory_is_host() && session.spec.sync_every == 1)
    state.lend = [&of = *session.state](std::function<void()> wait) { of.lend(std::move(wait)); };
  return state;
}

size_t bytes_of_copies(const Session& session) {
  if (session.is_divided() || session.spec.checkpoint_every == 0 || !session.ops->memory_is_host()) return 0;
  size_t bytes = 0;
  for (const model::StateTensor& tensor : session.state->tensors()) bytes += tensor.bytes;
  return bytes;
}

StateToWrite part_of(Session& session, storage::PartOf of, const std::string& state_hash, const std::vector<bool>& writes) {
  StateToWrite state;
  state.step = session.state->step;
  state.state_hash = state_hash;
  state.part = StateToWrite::Part{of, {}, {}};
  for (const model::StateTensor& tensor : session.state->tensors())
    state.part->tensors.push_back({tensor.name, tensor.dtype, tensor.shape, static_cast<int64_t>(tensor.bytes)});
  std::set<const std::byte*> on_host;
  const auto pieces = session.state->pieces();
  for (size_t i = 0; i < pieces.size(); ++i) {
    if (!writes[i]) continue;
    if (pieces[i].on_host) on_host.insert(pieces[i].data);
    state.part->pieces.push_back({i, {pieces[i].data, pieces[i].bytes}});
  }
  state.copy = copying_from(session, std::move(on_host));
  return state;
}

}  // namespace holdfast::worker

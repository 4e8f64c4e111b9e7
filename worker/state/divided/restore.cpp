#include "worker/state/divided/restore.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace holdfast::worker {
namespace {

// A piece of the state and the host's memory for it, which is its own where that is the host's.
struct Place {
  model::StatePiece piece;
  std::unique_ptr<std::byte[]> staging;
};

class Restore {
 public:
  explicit Restore(Session& session) : session_(session), on_host_(session.ops->memory_is_host()) {
    const auto& table = session.model->table();
    const auto chunks = table.chunks();
    const auto pieces = session.state->pieces();
    constexpr const char* kKinds[] = {"", "exp_avg/", "exp_avg_sq/"};
    for (size_t kind = 0; kind < 3; ++kind) {
      for (size_t c = 0; c < chunks.size(); ++c) {
        if (!session.state->owned()[c]) continue;
        const auto& entry = table.entries[table.cut(chunks[c]).front().tensor];
        add(kKinds[kind] + entry.name, (chunks[c].first - entry.offset) * static_cast<int64_t>(sizeof(float)),
            pieces[kind * chunks.size() + c]);
      }
    }
    for (const model::StateTensor& tensor : session.state->tensors()) {
      infos_.push_back({tensor.name, tensor.dtype, tensor.shape, static_cast<int64_t>(tensor.bytes)});
      if (!tensor.in_chunks) add(tensor.name, 0, {tensor.data, tensor.bytes, true});
    }
  }

  storage::Result<storage::Manifest> read(storage::ObjectStore& store, int64_t step, bool verifies) const {
    const int threads = host_threads(*session_.ops, 8);
    auto manifest = storage::read_ranges(store, step, infos_, ranges_, threads);
    const bool by_pieces = manifest && manifest->format_version >= storage::Manifest::kHashOfPieces;
    return !manifest || by_pieces || !verifies ? std::move(manifest) : storage::verify_checkpoint(store, step, threads);
  }

  void put() {
    for (const Place& place : places_) {
      if (place.staging) session_.ops->copy_to_device(place.piece.data, place.staging.get(), place.piece.bytes);
    }
  }

 private:
  void add(const std::string& tensor, int64_t offset, const model::StatePiece& piece) {
    Place& place = places_.emplace_back(piece);
    if (!on_host_ && !piece.on_host) place.staging = std::make_unique_for_overwrite<std::byte[]>(piece.bytes);
    ranges_.push_back({tensor, offset, {place.staging ? place.staging.get() : piece.data, piece.bytes}});
  }

  Session& session_;
  const bool on_host_;
  std::vector<storage::TensorInfo> infos_;
  std::vector<storage::MutableRange> ranges_;
  std::vector<Place> places_;
};

}  // namespace

RunResult<storage::Manifest> restore_own(Session& session, const Restoring& restoring, int64_t step, bool verifies) {
  session.ops->synchronize();
  Restore restore(session);
  auto manifest = restoring([&](storage::ObjectStore& store) { return restore.read(store, step, verifies); });
  if (!manifest) return manifest;
  restore.put();
  session.state->bytes_changed();
  return manifest;
}

}  // namespace holdfast::worker

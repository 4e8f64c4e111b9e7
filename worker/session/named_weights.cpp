#include "worker/session/named_weights.h"

#include <utility>

#include "rendezvous/protocol/initial_source.h"
#include "storage/places/place.h"
#include "worker/session/data_files.h"

namespace holdfast::worker {

using rendezvous::JobSpec;

model::Gpt2Config model_config(const JobSpec& spec) {
  return {.n_layer = spec.n_layer,
          .n_embd = spec.n_embd,
          .n_head = spec.n_head,
          .vocab_size = spec.vocab_size,
          .block_size = spec.block_size,
          .ties_head = spec.tied_head == "on"};
}

tl::expected<model::InitialWeights, std::string> named_weights(const std::string& init_from, const model::Gpt2Config& config,
                                                               const DataPlaces& places) {
  const rendezvous::InitialSource source = rendezvous::parse_initial_source(init_from);
  if (source.of_job()) {
    if (!places.open_store) return tl::unexpected(init_from + ": this worker reads no checkpoints of jobs");
    auto store = places.open_store(source.store, source.job, places.stop);
    if (!store) return tl::unexpected(store.error().message);
    return model::open_initial_weights(*std::move(store), source.step, init_from, config);
  }
  if (storage::is_s3(source.path)) {
    if (!places.open_store) return tl::unexpected(init_from + ": this worker reads no checkpoints of others");
    const auto [place, step] = storage::split_step(source.path, true);
    auto store = places.open_store(place, "", places.stop);
    if (!store) return tl::unexpected(store.error().message);
    const int64_t chosen = source.step < 0 ? step.value_or(-1) : source.step;
    return model::open_initial_weights(*std::move(store), chosen, init_from, config);
  }
  const auto path = resolve_data_path(source.path, places.data_root);
  if (!path) return tl::unexpected(path.error());
  return model::open_initial_weights(*path, source.step, config);
}

}  // namespace holdfast::worker

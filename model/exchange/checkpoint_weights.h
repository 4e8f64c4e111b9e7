// The parameters of a checkpoint for an export, and the folder where the tokenizer that it was trained with may be.
#pragma once

#include <optional>
#include <string>

#include "model/exchange/weight_source.h"
#include "storage/checkpoint.h"

namespace holdfast::model {

// Reads the checkpoint that `manifest` describes, each shard verified that is touched, and refuses another one that took its
// place meanwhile: a writer of a later generation may write the same step again. The sizes are config_of(manifest), which
// exports check. A read that fails leaves the store's error in `failure`, too, for callers that tell its kinds apart.
// `store` and `failure` outlive the source.
WeightSource checkpoint_weights(storage::ObjectStore& store, const storage::Manifest& manifest, int threads,
                                std::optional<storage::Error>& failure);

}  // namespace holdfast::model

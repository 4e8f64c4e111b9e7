#include "model/exchange/checkpoint_weights.h"

#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "model/exchange/checkpoint_config.h"

namespace holdfast::model {

WeightSource checkpoint_weights(storage::ObjectStore& store, const storage::Manifest& manifest, int threads,
                                std::optional<storage::Error>& failure) {
  using Outcome = tl::expected<void, std::string>;
  const auto read = [&store, &failure, threads, step = manifest.step,
                     hash = manifest.state_hash](std::span<const storage::MutableTensor> tensors) -> Outcome {
    auto there = storage::read_tensors(store, step, tensors, threads);
    if (there && there->state_hash != hash) {
      there = tl::unexpected(
          storage::Error{storage::Error::Code::kUnavailable,
                         fmt::format("{}: the checkpoint of step {} was replaced by another while it was read: try again",
                                     store.describe(), step)});
    }
    if (there) return {};
    failure = there.error();
    return tl::unexpected(there.error().message);
  };
  return {config_of(manifest), read};
}

}  // namespace holdfast::model

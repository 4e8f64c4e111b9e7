#include "worker/replica/ready_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <limits>

#include "model/decode/precision.h"

namespace holdfast::worker {
namespace {

using kernels::WeightForm;

constexpr int64_t kCacheBytes = int64_t{1} << 30;  // for keys and values, at most
constexpr int64_t kBatchTokens = 256;              // of a pass

WeightForm form_of(const rendezvous::JobSpec& spec) {
  return model::precision_named(spec.precision).value().weights;
}

kernels::DType activations_of(const rendezvous::JobSpec& spec) {
  return model::precision_named(spec.precision).value().activations;
}

model::Decoder::Limits limits_of(const model::Gpt2Config& config, kernels::DeviceOps& ops) {
  const int64_t longest = (config.block_size + kernels::kPageTokens - 1) / kernels::kPageTokens;
  const int64_t fitting = kCacheBytes / static_cast<int64_t>(model::Decoder::page_bytes(config, ops));
  return {.pages = std::clamp(fitting, longest, ReadyModel::kTextsMax * longest),
          .rows = kBatchTokens,
          .answers = ReadyModel::kTextsMax};
}

}  // namespace

tl::expected<std::shared_ptr<ReadyModel>, std::string> ReadyModel::read(const std::string& source,
                                                                        const rendezvous::JobSpec& spec,
                                                                        const kernels::OpsFactory& make_ops,
                                                                        const DataPlaces& places) {
  const model::Gpt2Config config = model_config(spec);
  auto weights = named_weights(source, config, places);
  if (!weights) return tl::unexpected(std::move(weights.error()));
  try {
    std::shared_ptr<ReadyModel> ready(new ReadyModel());
    ready->ops_ = make_ops(activations_of(spec));
    if (ready->ops_->make_decode_ops(form_of(spec)) == nullptr) {
      return tl::unexpected(fmt::format("a worker on {} writes no texts with precision {}: have the job require device=cpu",
                                        ready->ops_->info().model, spec.precision));
    }
    auto decoder = model::Decoder::make(config, *ready->ops_, *weights->values, limits_of(config, *ready->ops_), form_of(spec));
    if (!decoder) return tl::unexpected(std::move(decoder.error()));
    ready->decoder_ = *std::move(decoder);
    ready->texts_ = std::make_unique<TextServer>(*ready->decoder_, std::numeric_limits<int64_t>::max());
    ready->digest_ = std::move(weights->digest);
    ready->held_ = {
        .source = source,
        .fingerprint = fmt::format("{}-{}-{}", ready->digest_.substr(0, 16), spec.precision, ready->ops_->info().numerics),
        .block_size = config.block_size,
        .vocab_size = config.vocab_size};
    return ready;
  } catch (const std::exception& error) {
    return tl::unexpected(fmt::format("{} cannot be made ready: {}", source, error.what()));
  }
}

}  // namespace holdfast::worker

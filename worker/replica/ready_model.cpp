#include "worker/replica/ready_model.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <exception>
#include <limits>
#include <utility>

#include "model/decode/precision.h"
#include "model/device_buffer.h"

namespace holdfast::worker {
namespace {

using kernels::WeightForm;
using rendezvous::StageAddress;
using rendezvous::TextRefused;

constexpr int64_t kCacheBytes = int64_t{1} << 30;  // for keys and values, at most
constexpr int64_t kBatchTokens = 256;              // of a pass

WeightForm form_of(const rendezvous::JobSpec& spec) {
  return model::precision_named(spec.precision).value().weights;
}

kernels::DType activations_of(const rendezvous::JobSpec& spec) {
  return model::precision_named(spec.precision).value().activations;
}

tl::expected<model::Decoder::Limits, std::string> limits_of(const ReadyModel::Setup& setup, const model::Gpt2Config& config,
                                                            model::LayerRange layers, kernels::DeviceOps& ops) {
  const int64_t longest = (config.block_size + kernels::kPageTokens - 1) / kernels::kPageTokens;
  const auto page_bytes = static_cast<int64_t>(model::Decoder::page_bytes(config, ops));
  model::Decoder::Limits limits{.pages = std::clamp(kCacheBytes / page_bytes, longest, ReadyModel::kTextsMax * longest),
                                .rows = kBatchTokens,
                                .answers = ReadyModel::kTextsMax};
  if (!ops.memory_is_host()) return limits;
  ReplicaMemory memory = weights_memory(config, layers, ops, form_of(setup.spec));
  memory.page = static_cast<double>(page_bytes * (layers.end - layers.first)) / static_cast<double>(config.n_layer);
  memory.fewest_pages = setup.spec.stages > 1 ? limits.pages : longest;  // all stages of a model have the same number
  memory.most_pages = limits.pages;
  memory.models = setup.spec.follow == "on" ? 2 : 1;
  memory.precision = setup.spec.precision;
  const auto pages = pages_within(setup.memory, memory);
  if (!pages) return tl::unexpected(pages.error());
  limits.pages = *pages;
  return limits;
}

// Layers of a stage: as many as of the others, or one more.
model::LayerRange layers_of(const model::Gpt2Config& config, int64_t stage, int64_t stages) {
  return {config.n_layer * stage / stages, config.n_layer * (stage + 1) / stages};
}

}  // namespace

ReplicaMemory weights_memory(const model::Gpt2Config& config, model::LayerRange layers, kernels::DeviceOps& ops,
                             WeightForm form) {
  constexpr int64_t kRows = 256;  // whole tiles of the products of any op set
  const auto C = static_cast<double>(config.n_embd), activation = static_cast<double>(dtype_size(ops.activation_dtype()));
  model::DeviceBuffer rows(ops, static_cast<size_t>(kRows * config.n_embd) * dtype_size(ops.activation_dtype()));
  ops.zero(rows.data<kernels::Act>(), rows.bytes());
  const auto decode = ops.make_decode_ops(form);
  const auto kept = decode->keep(rows.data<kernels::Act>(), kRows, config.n_embd);
  const double element = static_cast<double>(kept->bytes()) / (kRows * C);
  ReplicaMemory memory = replica_memory(config, layers, element);
  if (layers.first > 0) return memory;
  // The embeddings' rows are read as they are: those of wte in the activations' type, those of wpe in float32.
  memory.weights += C * (static_cast<double>(config.vocab_size) * (activation - element) +
                         static_cast<double>(config.block_size) * (sizeof(float) - element));
  return memory;
}

ReadyModel::~ReadyModel() {
  is_leaving_ = true;
}

tl::expected<std::shared_ptr<ReadyModel>, std::string> ReadyModel::read(const std::string& source, int64_t stage,
                                                                        const Setup& setup, const DataPlaces& places) {
  const rendezvous::JobSpec& spec = setup.spec;
  const model::Gpt2Config config = model_config(spec);
  try {
    auto weights = named_weights(source, config, places);
    if (!weights) return tl::unexpected(std::move(weights.error()));
    std::shared_ptr<ReadyModel> ready(new ReadyModel(stage, setup));
    ready->ops_ = setup.make_ops(activations_of(spec));
    kernels::DeviceOps& ops = *ready->ops_;
    if (ops.make_decode_ops(form_of(spec)) == nullptr) {
      return tl::unexpected(fmt::format("a worker on {} writes no texts with precision {}: have the job require device=cpu",
                                        ops.info().model, spec.precision));
    }
    ready->layers_ = layers_of(config, stage, spec.stages);
    const auto limits = limits_of(setup, config, ready->layers_, ops);
    if (!limits) return tl::unexpected(limits.error());
    const bool is_first = stage == 0, is_last = stage == spec.stages - 1;
    auto decoder = model::Decoder::make_part(config, ops, *weights->values, *limits, form_of(spec), ready->layers_,
                                             is_last && !is_first ? &ready->earlier_ : nullptr);
    if (!decoder) return tl::unexpected(std::move(decoder.error()));
    ready->decoder_ = *std::move(decoder);
    ready->digest_ = std::move(weights->digest);
    ready->held_ = {.source = source,
                    .fingerprint = fmt::format("{}-{}-{}", ready->digest_.substr(0, 16), spec.precision, ops.info().numerics),
                    .block_size = config.block_size,
                    .vocab_size = config.vocab_size};
    if (!is_last) {
      auto server = StageServer::start(
          *ready->decoder_,
          {.fingerprint = ready->held_.fingerprint, .layers = ready->layers_, .rows = limits->rows, .pages = limits->pages},
          setup.host, setup.ports, setup.on_failed);
      if (!server) return tl::unexpected(std::move(server.error()));
      ready->server_ = *std::move(server);
      ready->held_.address = ready->server_->address();
    } else if (is_first) {
      ready->texts_ = std::make_unique<TextServer>(*ready->decoder_, std::numeric_limits<int64_t>::max());
    } else {
      ready->needs_ = {ready->held_.fingerprint, config, *limits, ready->decoder_->branch_bytes(1)};
    }
    return ready;
  } catch (const kernels::DeviceFailure&) {
    throw;
  } catch (const std::exception& error) {
    return tl::unexpected(fmt::format("{} cannot be made ready: {}", source, error.what()));
  }
}

bool ReadyModel::is_ready() const {
  const std::lock_guard lock(mutex_);
  return server_ != nullptr || (texts_ != nullptr && !is_lost_);
}

std::optional<TextRefused> ReadyModel::submit(rendezvous::TextOrder order) {
  std::vector<rendezvous::TextOrder> orders;
  orders.push_back(std::move(order));
  const std::lock_guard lock(mutex_);
  if (texts_ == nullptr || is_lost_) return TextRefused{.is_busy = true, .why = held_.source + " has lost its other layers"};
  return texts_->submit(std::move(orders), std::chrono::hours(24));
}

model::TextEngine::Load ReadyModel::load() const {
  const std::lock_guard lock(mutex_);
  return texts_ == nullptr ? model::TextEngine::Load{} : texts_->load();
}

tl::expected<void, StagesRefused> ReadyModel::connect(const std::vector<StageAddress>& earlier) {
  disconnect();
  {
    const std::lock_guard lock(mutex_);
    if (is_given_up_) return tl::unexpected(StagesRefused{"the job is given up"});
    is_leaving_ = false;
  }
  auto stages = RemoteStages::connect(earlier, needs_, &is_leaving_);
  if (!stages) return tl::unexpected(std::move(stages.error()));
  if ((*stages)->end_layer() != layers_.first)
    return tl::unexpected(StagesRefused{fmt::format("the stages before have the layers up to {}, expected up to {}",
                                                    (*stages)->end_layer() - 1, layers_.first - 1)});
  earlier_.set(*std::move(stages));
  const std::lock_guard lock(mutex_);
  is_lost_ = false;
  connected_to_ = earlier;
  texts_ = std::make_unique<TextServer>(*decoder_, std::numeric_limits<int64_t>::max(),
                                        [this](const std::exception& failure) { lose(failure); });
  return {};
}

void ReadyModel::disconnect() {
  is_leaving_ = true;
  std::unique_ptr<TextServer> ended;  // without the lock: its thread may be about to take it
  const std::lock_guard lock(mutex_);
  ended = std::move(texts_);
  connected_to_.clear();
  is_lost_ = false;
}

bool ReadyModel::is_connected_to(const std::vector<StageAddress>& earlier) const {
  const std::lock_guard lock(mutex_);
  return !is_lost_ && connected_to_ == earlier;
}

void ReadyModel::give_up() {
  const std::lock_guard lock(mutex_);
  is_given_up_ = is_leaving_ = true;
}

void ReadyModel::lose(const std::exception& failure) {
  {
    const std::lock_guard lock(mutex_);
    is_lost_ = true;
  }
  if (dynamic_cast<const StageLost*>(&failure) == nullptr) return on_failed_(failure.what());
  if (!is_leaving_) spdlog::warn("{} writes no texts for now: {}", held_.source, failure.what());
  on_lost_();
}

}  // namespace holdfast::worker

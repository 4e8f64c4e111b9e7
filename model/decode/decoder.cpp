#include "model/decode/decoder.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <stdexcept>
#include <string_view>

namespace holdfast::model {

namespace {

using kernels::Act;
using kernels::Epilogue;

const Gpt2Config& checked(const Gpt2Config& config) {
  if (const auto problems = config.problems(); !problems.empty())
    throw std::invalid_argument(fmt::format("the model cannot be built: {}", fmt::join(problems, "; ")));
  return config;
}

}  // namespace

Decoder::Decoder(const Gpt2Config& config, kernels::DeviceOps& ops, const Limits& limits, kernels::WeightForm form,
                 LayerRange layers, EarlierLayers* earlier)
    : config_(checked(config)),
      limits_(limits),
      layer_range_(layers),
      earlier_(earlier),
      table_(config),
      ops_(ops),
      decode_(ops.make_decode_ops(form)) {
  assert(decode_ != nullptr && limits.pages > 0 && limits.rows > 0 && limits.answers > 0);
  assert(layers.first >= 0 && layers.first < layers.end && layers.end <= config.n_layer);
  const auto C = static_cast<size_t>(config_.n_embd), rows = static_cast<size_t>(limits_.rows);
  const size_t act = kernels::dtype_size(ops_.activation_dtype());
  const auto buffer = [&](size_t bytes) { return DeviceBuffer(ops_, bytes); };
  const int64_t here = layers.end - layers.first;
  pages_ = buffer(static_cast<size_t>(here * limits_.pages) * decode_->page_bytes(config_.n_embd, config_.n_head));
  residual_ = buffer(rows * C * sizeof(float));
  residual_after_ = buffer(rows * C * sizeof(float));
  normed_ = buffer(rows * C * act);
  qkv_ = buffer(rows * 3 * C * act);
  attention_ = buffer(rows * C * act);
  branch_ = buffer(rows * C * act);
  wide_ = buffer(rows * 4 * C * act);
  statistics_ = buffer(2 * rows * sizeof(float));
  if (!has_last()) {
    host_residual_.resize(rows * C);
    host_branch_.resize(branch_bytes(limits_.rows));
    return;
  }
  const auto answers = static_cast<size_t>(limits_.answers), V = static_cast<size_t>(config_.vocab_size);
  answers_ = buffer(answers * C * act);
  logits_ = buffer(answers * V * sizeof(float));
  host_logits_.resize(ops_.memory_is_host() ? 0 : answers * V);
}

Decoder::~Decoder() = default;

size_t Decoder::page_bytes(const Gpt2Config& config, kernels::DeviceOps& ops) {
  const auto decode = ops.make_decode_ops(kernels::WeightForm::kActivations);  // pages are the same in all
  return static_cast<size_t>(config.n_layer) * decode->page_bytes(config.n_embd, config.n_head);
}

tl::expected<std::unique_ptr<Decoder>, std::string> Decoder::make(const Gpt2Config& config, kernels::DeviceOps& ops,
                                                                  const InitialValues& values, const Limits& limits,
                                                                  kernels::WeightForm form) {
  return make_part(config, ops, values, limits, form, {0, config.n_layer}, nullptr);
}

tl::expected<std::unique_ptr<Decoder>, std::string> Decoder::make_part(const Gpt2Config& config, kernels::DeviceOps& ops,
                                                                       const InitialValues& values, const Limits& limits,
                                                                       kernels::WeightForm form, LayerRange layers,
                                                                       EarlierLayers* earlier) {
  std::unique_ptr<Decoder> decoder(new Decoder(config, ops, limits, form, layers, earlier));
  if (auto loaded = decoder->load(values); !loaded) return tl::make_unexpected(std::move(loaded.error()));
  return decoder;
}

size_t Decoder::branch_bytes(int64_t rows) const {
  return static_cast<size_t>(rows * config_.n_embd) * kernels::dtype_size(ops_.activation_dtype());
}

// In the table's order. A matrix passes through memory for its largest, as float32 and in the activations' type.
tl::expected<void, std::string> Decoder::load(const InitialValues& values) {
  int64_t largest = 0;
  for (const Parameter& entry : table_.entries) largest = std::max(largest, entry.count);
  std::vector<float> host(static_cast<size_t>(largest));
  DeviceBuffer masters(ops_, static_cast<size_t>(largest) * sizeof(float));
  DeviceBuffer rounded(ops_, static_cast<size_t>(largest) * kernels::dtype_size(ops_.activation_dtype()));
  tl::expected<void, std::string> result;
  size_t tensor = 0;
  const auto read = [&]() -> const Parameter& {
    const Parameter& entry = table_.entries[tensor];
    const auto floats = std::span(host).first(static_cast<size_t>(entry.count));
    if (result) result = values.fill(tensor, floats);
    ++tensor;
    ops_.copy_to_device(masters.data<float>(), floats.data(), floats.size_bytes());
    return entry;
  };
  const auto vector = [&] {
    const Parameter& entry = read();
    DeviceBuffer to(ops_, static_cast<size_t>(entry.count) * sizeof(float));
    ops_.scale(to.data<float>(), masters.data<float>(), entry.count, 1.0F);
    return to;
  };
  const auto matrix = [&] {
    const Parameter& entry = read();
    ops_.cast(rounded.data<Act>(), masters.data<float>(), entry.count);
    return decode_->keep(rounded.data<Act>(), entry.shape[0], entry.shape[1]);
  };
  const auto norm = [&] {
    DeviceBuffer weight = vector();
    return Norm{std::move(weight), vector()};
  };
  const auto linear = [&] {
    auto weight = matrix();
    return Linear{std::move(weight), vector()};
  };

  const bool ties_head = table_.ties_head();
  if (has_first() || (has_last() && ties_head)) {
    const Parameter& entry = read();
    ops_.cast(rounded.data<Act>(), masters.data<float>(), entry.count);
    if (has_last() && ties_head) head_ = decode_->keep(rounded.data<Act>(), entry.shape[0], entry.shape[1]);
    if (has_first()) {
      wte_rows_ = DeviceBuffer(ops_, static_cast<size_t>(entry.count) * kernels::dtype_size(ops_.activation_dtype()));
      ops_.cast(wte_rows_.data<Act>(), masters.data<float>(), entry.count);
      wpe_ = vector();
    }
  }
  tensor = ParameterTable::first_of_layer(layer_range_.first);
  for (int64_t i = layer_range_.first; i < layer_range_.end && result; ++i) {
    LayerWeights& layer = layers_.emplace_back();
    layer.ln_1 = norm(), layer.attn = linear(), layer.attn_proj = linear();
    layer.ln_2 = norm(), layer.fc = linear(), layer.mlp_proj = linear();
  }
  if (result && has_last()) {
    ln_f_ = norm();
    if (!ties_head) head_ = matrix();
  }
  ops_.synchronize();
  return result;
}

Decoder::Rows Decoder::rows_of(std::span<const Feed> feeds) const {
  Rows rows;
  for (const Feed& feed : feeds) {
    const auto count = static_cast<int64_t>(feed.tokens.size());
    assert(count > 0 && feed.position + count <= config_.block_size && feed.answers <= count);
    assert(static_cast<int64_t>(feed.pages.size()) >= pages_of(feed.position + count));
    rows.sequences.push_back({rows.count(), count, feed.position, feed.pages.data()});
    rows.tokens.insert(rows.tokens.end(), feed.tokens.begin(), feed.tokens.end());
    for (int64_t i = 0; i < count; ++i) rows.positions.push_back(static_cast<int32_t>(feed.position + i));
    rows.answers += feed.answers;
  }
  assert(rows.count() <= limits_.rows && rows.answers <= limits_.answers);
  return rows;
}

void Decoder::run_layers(const Rows& rows, const std::optional<BetweenLayers>& from) {
  const int64_t N = rows.count();
  if (has_first()) {
    decode_->embed(residual_.data<float>(), rows.tokens.data(), rows.positions.data(), wte_rows_.data<Act>(),
                   wpe_.data<float>(), N, config_.n_embd);
  } else {
    ops_.copy_to_device(residual_.data<float>(), from->residual.data(), from->residual.size_bytes());
    ops_.copy_to_device(branch_.data<std::byte>(), from->branch.data(), from->branch.size());
  }
  for (int64_t i = layer_range_.first; i < layer_range_.end; ++i) layer(i, rows.sequences, N);
}

BetweenLayers Decoder::feed_through(std::span<const Feed> feeds, const std::optional<BetweenLayers>& from) {
  assert(!has_last());
  const Rows rows = rows_of(feeds);
  run_layers(rows, from);
  const auto floats = static_cast<size_t>(rows.count() * config_.n_embd);
  const size_t bytes = branch_bytes(rows.count());
  ops_.copy_to_host(host_residual_.data(), residual_.data<float>(), floats * sizeof(float));
  ops_.copy_to_host(host_branch_.data(), branch_.data<std::byte>(), bytes);
  return {std::span(host_residual_).first(floats), std::span(host_branch_).first(bytes)};
}

std::span<const float> Decoder::feed(std::span<const Feed> feeds) {
  assert(has_last());
  const int64_t C = config_.n_embd, V = config_.vocab_size;
  const Rows rows = rows_of(feeds);
  const int64_t N = rows.count();
  run_layers(rows, has_first() ? std::nullopt : std::optional(earlier_->feed(feeds)));
  float* const statistics = statistics_.data<float>();
  ops_.layernorm_forward(normed_.data<Act>(), residual_after_.data<float>(), statistics, statistics + N,
                         residual_.data<float>(), branch_.data<Act>(), ln_f_.weight.data<float>(), ln_f_.bias.data<float>(), N,
                         C);

  const size_t row_bytes = static_cast<size_t>(C) * kernels::dtype_size(ops_.activation_dtype());
  answered_ = 0;
  for (size_t i = 0; i < feeds.size(); ++i) {
    if (feeds[i].answers == 0) continue;
    const int64_t from = rows.sequences[i].first_row + rows.sequences[i].count - feeds[i].answers;
    decode_->copy(answers_.data<std::byte>() + static_cast<size_t>(answered_) * row_bytes,
                  normed_.data<std::byte>() + static_cast<size_t>(from) * row_bytes,
                  static_cast<size_t>(feeds[i].answers) * row_bytes);
    answered_ += feeds[i].answers;
  }
  if (answered_ == 0) return {};
  decode_->logits(logits_.data<float>(), answers_.data<Act>(), *head_, answered_);
  const auto count = static_cast<size_t>(answered_ * V);
  if (ops_.memory_is_host()) return {logits_.data<float>(), count};
  ops_.copy_to_host(host_logits_.data(), logits_.data<float>(), count * sizeof(float));
  return std::span(host_logits_).first(count);
}

// As Gpt2::layer_forward: a layer's first act is to add its predecessor's branch.
void Decoder::layer(int64_t index, std::span<const kernels::SequenceRows> sequences, int64_t N) {
  const int64_t C = config_.n_embd;
  const auto here = static_cast<size_t>(index - layer_range_.first);
  const LayerWeights& w = layers_[here];
  Act *const normed = normed_.data<Act>(), *const branch = branch_.data<Act>();
  float *const mean = statistics_.data<float>(), *const rstd = mean + N;
  const auto normalise = [&](const Norm& norm, bool adds) {
    ops_.layernorm_forward(normed, adds ? residual_after_.data<float>() : nullptr, mean, rstd, residual_.data<float>(),
                           adds ? branch : nullptr, norm.weight.data<float>(), norm.bias.data<float>(), N, C);
    if (adds) std::swap(residual_, residual_after_);
  };
  const size_t layer_bytes = static_cast<size_t>(limits_.pages) * decode_->page_bytes(C, config_.n_head);
  normalise(w.ln_1, index > 0);
  decode_->linear(qkv_.data<Act>(), normed, *w.attn.weight, w.attn.bias.data<float>(), Epilogue::kNone, N);
  decode_->attention(attention_.data<Act>(), pages_.data<std::byte>() + here * layer_bytes, qkv_.data<Act>(), sequences,
                     config_.block_size, C, config_.n_head);
  decode_->linear(branch, attention_.data<Act>(), *w.attn_proj.weight, w.attn_proj.bias.data<float>(), Epilogue::kNone, N);
  normalise(w.ln_2, true);
  decode_->linear(wide_.data<Act>(), normed, *w.fc.weight, w.fc.bias.data<float>(), Epilogue::kGelu, N);
  decode_->linear(branch, wide_.data<Act>(), *w.mlp_proj.weight, w.mlp_proj.bias.data<float>(), Epilogue::kNone, N);
}

std::vector<float> Decoder::losses(std::span<const int32_t> ids) {
  assert(answered_ > 0 && ids.size() % static_cast<size_t>(answered_) == 0);
  std::vector<float> losses(ids.size());
  decode_->token_losses(losses.data(), logits_.data<float>(), ids.data(), answered_,
                        static_cast<int64_t>(ids.size()) / answered_, config_.vocab_size);
  return losses;
}

Decoder::MemoryUse Decoder::memory_use() const {
  size_t weights = (head_ ? head_->bytes() : 0) + wte_rows_.bytes() + wpe_.bytes() + ln_f_.weight.bytes() + ln_f_.bias.bytes();
  for (const LayerWeights& layer : layers_) {
    for (const Linear* linear : {&layer.attn, &layer.attn_proj, &layer.fc, &layer.mlp_proj})
      weights += linear->weight->bytes() + linear->bias.bytes();
    for (const Norm* norm : {&layer.ln_1, &layer.ln_2}) weights += norm->weight.bytes() + norm->bias.bytes();
  }
  size_t activations = 0;
  for (const DeviceBuffer* buffer :
       {&residual_, &residual_after_, &normed_, &qkv_, &attention_, &branch_, &wide_, &statistics_, &answers_, &logits_})
    activations += buffer->bytes();
  return {weights, pages_.bytes(), activations};
}

}  // namespace holdfast::model

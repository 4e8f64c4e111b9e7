#include "model/gpt2.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <stdexcept>
#include <utility>

#include "model/activations.h"
#include "model/parameter_views.h"

namespace holdfast::model {

namespace {

using kernels::Epilogue;

const Gpt2Config& checked(const Gpt2Config& config) {
  std::string all;
  for (const std::string& problem : config.problems()) all += (all.empty() ? "" : "; ") + problem;
  if (!all.empty()) throw std::invalid_argument("the model cannot be built: " + all);
  return config;
}

DeviceBuffer floats(kernels::DeviceOps& ops, int64_t count) {
  return {ops, static_cast<size_t>(count) * sizeof(float)};
}

template <typename Number>
void drop(kernels::DeviceOps& ops, Number* x, const kernels::Dropout& dropout, int64_t N, int64_t C) {
  if (dropout.is_on()) ops.drop(x, dropout, N, C);
}

void throw_if(const std::atomic<bool>* interrupt) {
  if (interrupt != nullptr && interrupt->load(std::memory_order_relaxed)) throw Interrupted{};
}

}  // namespace

Gpt2::Gpt2(const Gpt2Config& config, kernels::DeviceOps& ops, int64_t batch_size, Recompute recompute, ModelMemory memory)
    : config_(checked(config)),
      table_(config),
      ops_(ops),
      batch_size_(batch_size),
      recompute_(recompute),
      memory_(memory),
      parameters_(memory.masters == Masters::kInModel ? floats(ops, table_.total) : DeviceBuffer()),
      gradients_(table_, ops, memory.gradients),
      views_(std::make_unique<ParameterViews>(table_, ops, parameters(), gradients_.places(), copies_by_layer())),
      activations_(std::make_unique<Activations>(config, ops, batch_size, recompute)),
      pass_(ops.make_sequence()),
      distinct_(static_cast<size_t>(batch_size * config.block_size)) {}

Gpt2::~Gpt2() = default;

Gpt2::MemoryUse Gpt2::memory_use() const {
  return {parameters_.bytes(), views_->bytes(), gradients_.bytes(), activations_->bytes()};
}

tl::expected<void, std::string> Gpt2::initialize(const InitialValues& initial) {
  for (size_t i = 0; i < table_.entries.size(); ++i) {
    std::vector<float> values(static_cast<size_t>(table_.entries[i].count));
    if (auto filled = initial.fill(i, values); !filled) return filled;
    ops_.copy_to_device(parameters() + table_.entries[i].offset, values.data(), values.size() * sizeof(float));
  }
  parameters_changed();
  return {};
}

void Gpt2::initialize(uint64_t seed) {
  static_cast<void>(initialize(SeededValues(config_, seed)));
}

void Gpt2::parameters_changed() {
  views_->cast(ops_);
  ops_.parameters_changed();
}

ComputeCopy Gpt2::copy_of(Elements range) const {
  return views_->copy_of(range);
}
void Gpt2::refresh(Elements range, const float* masters) {
  views_->cast(ops_, range, masters);
}
void Gpt2::copies_changed() {
  brought_ = {};
  ops_.parameters_changed();
}

void Gpt2::set_bringer(LayerBringer bringer) {
  bringer_ = std::move(bringer);
  copies_changed();
}

void Gpt2::begin_bringing(int64_t layer) {
  Brought& at = brought_[static_cast<size_t>(layer == kNoLayer ? 2 : layer % 2)];
  if (at.is_begun && at.layer == layer) return;
  at = {.is_begun = true, .is_here = false, .layer = layer};
  bringer_.begin(layer);
}

void Gpt2::need(int64_t layer, int64_t next) {
  if (!copies_by_layer() || !bringer_.begin) return;
  begin_bringing(layer);
  Brought& at = brought_[static_cast<size_t>(layer == kNoLayer ? 2 : layer % 2)];
  if (!at.is_here) {
    bringer_.finish(layer);
    ops_.parameters_changed();
    at.is_here = true;
  }
  if (next != kNoLayer) begin_bringing(next);
}

void Gpt2::need_forward() {
  for (int64_t layer = kNoLayer; layer < config_.n_layer; ++layer)
    need(layer, layer + 1 < config_.n_layer ? layer + 1 : kNoLayer);
}

void Gpt2::need_backward(int64_t layer) {
  need(layer, layer > 0 ? layer - 1 : kNoLayer);
}

void Gpt2::load(std::span<const int32_t> tokens, std::span<const int32_t> targets) {
  const size_t expected = static_cast<size_t>(batch_size_ * config_.block_size);
  if (tokens.size() != expected || targets.size() != expected) {
    throw std::invalid_argument("a microbatch has " + std::to_string(tokens.size()) + " tokens and " +
                                std::to_string(targets.size()) +
                                " targets, expected batch_size x block_size = " + std::to_string(expected) + " of each");
  }
  ops_.copy_to_device(activations_->tokens, tokens.data(), tokens.size_bytes());
  ops_.copy_to_device(activations_->targets, targets.data(), targets.size_bytes());
}

double Gpt2::train_microbatch(std::span<const int32_t> tokens, std::span<const int32_t> targets,
                              const OnGradients& on_gradients, TiedGradient tied, MicrobatchPlace place) {
  const int64_t B = batch_size_, T = config_.block_size, N = B * T;
  load(tokens, targets);
  dropped_ = kernels::dropout_of(recipe_.dropout);
  if (dropped_.is_on()) ops_.set_dropout_pass(kernels::dropout_pass(recipe_.seed, place.step, place.microbatch));
  rows_apart_ = table_.ties_head() && (gradients_.head_by_rows() || on_gradients != nullptr || tied == TiedGradient::kApart);
  const auto load_runs = [&] {  // while a GPU goes on
    distinct_.find(tokens);
    ops_.copy_to_device(activations_->token_runs, distinct_.runs().data(), distinct_.runs().size_bytes());
  };
  const bool brings_layers = copies_by_layer() && bringer_.begin != nullptr;
  if (on_gradients == nullptr && !brings_layers) {
    throw_if(interrupt_);
    pass_->run(uint64_t{recipes_} << 32U | static_cast<uint32_t>(loss_scale_log2_), [&] {
      forward(B, T);
      backward(B, T, nullptr);
    });
    load_runs();
  } else {
    forward(B, T);
    load_runs();
    backward(B, T, on_gradients);
  }
  throw_if(interrupt_);
  token_backward(on_gradients);
  if (gradients_.head_by_rows() && on_gradients) head_rows_backward(on_gradients);
  return ops_.sum(activations_->losses, N) / static_cast<double>(N);
}

TokenGradient Gpt2::token_gradient() const {
  return {rows_apart_ ? distinct_.ids() : std::span<const int32_t>(), activations_->token_gradient};
}

double Gpt2::evaluate_microbatch(std::span<const int32_t> tokens, std::span<const int32_t> targets) {
  const int64_t B = batch_size_, T = config_.block_size, N = B * T;
  const Activations& at = *activations_;
  load(tokens, targets);
  dropped_ = {};
  forward(B, T);
  ops_.head_loss(at.losses, at.normed, views_->head.act, at.targets, N, config_.n_embd, config_.vocab_size);
  return ops_.sum(at.losses, N) / static_cast<double>(N);
}

void Gpt2::forward(int64_t B, int64_t T) {
  const int64_t C = config_.n_embd, N = B * T;
  const Activations& at = *activations_;
  const ParameterViews& p = *views_;
  need(kNoLayer, 0);
  ops_.encoder_forward(at.layers[0].residual_in, at.tokens, p.wte.act, p.wpe.value, B, T, C);
  drop(ops_, at.layers[0].residual_in, dropped_.at(kernels::kEmbeddingSite), N, C);
  for (int64_t layer = 0; layer < config_.n_layer; ++layer) {
    throw_if(interrupt_);
    need(layer, layer + 1 < config_.n_layer ? layer + 1 : kNoLayer);
    layer_forward(layer, B, T);
  }
  throw_if(interrupt_);
  ops_.layernorm_forward(at.normed, at.residual_final, at.mean, at.rstd, at.layers.back().residual_mid, at.branch,
                         p.ln_f_weight.value, p.ln_f_bias.value, N, C);
}

// residual_mid = residual_in + attention(ln_1(residual_in));  branch = mlp(ln_2(residual_mid)), which whoever normalises
// next adds. So a layer's first act is to add its predecessor's branch.
void Gpt2::layer_forward(int64_t layer, int64_t B, int64_t T) {
  const int64_t C = config_.n_embd, N = B * T;
  const Activations& at = *activations_;
  const Activations::Layer& a = at.layers[layer];
  const ParameterViews::Layer& p = views_->layers[layer];

  if (layer == 0) {
    ops_.layernorm_forward(at.normed, nullptr, at.mean, at.rstd, a.residual_in, nullptr, p.ln_1_weight.value, p.ln_1_bias.value,
                           N, C);
  } else {
    ops_.layernorm_forward(at.normed, a.residual_in, at.mean, at.rstd, at.layers[layer - 1].residual_mid, at.branch,
                           p.ln_1_weight.value, p.ln_1_bias.value, N, C);
  }
  attention_forward(layer, B, T);
  ops_.matmul_forward(at.branch, nullptr, a.attention, p.attn_proj_weight.act, p.attn_proj_bias.value, Epilogue::kNone, N, C,
                      C);
  drop(ops_, at.branch, dropped_.at(kernels::attention_output_site(layer)), N, C);

  ops_.layernorm_forward(at.normed, a.residual_mid, at.mean, at.rstd, a.residual_in, at.branch, p.ln_2_weight.value,
                         p.ln_2_bias.value, N, C);
  mlp_forward(layer, N);
  ops_.matmul_forward(at.branch, nullptr, a.gelu, p.mlp_proj_weight.act, p.mlp_proj_bias.value, Epilogue::kNone, N, 4 * C, C);
  drop(ops_, at.branch, dropped_.at(kernels::mlp_output_site(layer)), N, C);
}

void Gpt2::attention_forward(int64_t layer, int64_t B, int64_t T) {
  const int64_t C = config_.n_embd;
  const Activations::Layer& a = activations_->layers[layer];
  const ParameterViews::Layer& p = views_->layers[layer];
  ops_.matmul_forward(a.qkv, nullptr, activations_->normed, p.attn_weight.act, p.attn_bias.value, Epilogue::kNone, B * T, C,
                      3 * C);
  ops_.attention_forward(a.attention, a.logsumexp, a.qkv, B, T, C, config_.n_head, dropped_.at(kernels::attention_site(layer)));
}

void Gpt2::mlp_forward(int64_t layer, int64_t N) {
  const int64_t C = config_.n_embd;
  const Activations::Layer& a = activations_->layers[layer];
  const ParameterViews::Layer& p = views_->layers[layer];
  ops_.matmul_forward(a.gelu, a.pre_gelu, activations_->normed, p.fc_weight.act, p.fc_bias.value, Epilogue::kGelu, N, C, 4 * C);
}

// From residual_in, which every layer keeps: the sum that made it is not taken again. `branch` holds a gradient here, so what
// attention adds goes through dbranch, which is free between two layers.
void Gpt2::layer_recompute(int64_t layer, int64_t B, int64_t T) {
  const bool still_there = layer == config_.n_layer - 1;
  if (recompute_ == Recompute::kNone || still_there) return;
  const int64_t C = config_.n_embd, N = B * T;
  const Activations& at = *activations_;
  const Activations::Layer& a = at.layers[layer];
  const ParameterViews::Layer& p = views_->layers[layer];
  ops_.layernorm_forward(at.normed, nullptr, at.mean, at.rstd, a.residual_in, nullptr, p.ln_1_weight.value, p.ln_1_bias.value,
                         N, C);
  attention_forward(layer, B, T);
  if (recompute_ == Recompute::kAttention) return;
  ops_.matmul_forward(at.dbranch, nullptr, a.attention, p.attn_proj_weight.act, p.attn_proj_bias.value, Epilogue::kNone, N, C,
                      C);
  drop(ops_, at.dbranch, dropped_.at(kernels::attention_output_site(layer)), N, C);
  ops_.layernorm_forward(at.normed, a.residual_mid, at.mean, at.rstd, a.residual_in, at.dbranch, p.ln_2_weight.value,
                         p.ln_2_bias.value, N, C);
  mlp_forward(layer, N);
}

void Gpt2::backward(int64_t B, int64_t T, const OnGradients& on_gradients) {
  const int64_t C = config_.n_embd, N = B * T;
  const Activations& at = *activations_;
  const ParameterViews& p = *views_;
  auto range = gradients_.order().begin();
  const auto tell = [&] {
    if (on_gradients) {
      if (!recipe_.trains_biases) gradients_.clear_biases(ops_, *range);
      on_gradients(range->first, range->count);
    }
    ++range;
  };
  ops_.head_loss_backward(at.losses, at.dbranch, gradients_.head_by_rows() ? nullptr : p.head.gradient, at.normed, p.head.act,
                          at.targets, N, C, config_.vocab_size, std::ldexp(1.0F, loss_scale_log2_));
  throw_if(interrupt_);
  if (!gradients_.head_by_rows()) tell();
  ops_.zero(at.dresidual, static_cast<size_t>(N * C) * sizeof(float));
  ops_.layernorm_backward(at.dresidual, at.branch, p.ln_f_weight.gradient, p.ln_f_bias.gradient, at.dbranch, at.residual_final,
                          p.ln_f_weight.value, at.mean, at.rstd, N, C);
  tell();
  for (int64_t layer = config_.n_layer - 1; layer >= 0; --layer) {
    throw_if(interrupt_);
    need_backward(layer);
    layer_recompute(layer, B, T);
    layer_backward(layer, B, T, [&] {
      if (!gradients_.is_whole()) tell();
    });
    tell();
  }
  drop(ops_, at.dresidual, dropped_.at(kernels::kEmbeddingSite), N, C);
  ops_.encoder_backward_positions(p.wpe.gradient, at.dresidual, B, T, C);
  if (!on_gradients && !recipe_.trains_biases) gradients_.clear_biases(ops_, {0, table_.total});
}

// The head's gradient, last. Its input is normalised again: layers took the memory.
void Gpt2::head_rows_backward(const OnGradients& on_gradients) {
  const Parameter& head = table_.entries[table_.head];
  const int64_t C = config_.n_embd, N = batch_size_ * config_.block_size;
  const Activations& at = *activations_;
  const ParameterViews& p = *views_;
  ops_.layernorm_forward(at.normed, nullptr, at.mean, at.rstd, at.residual_final, nullptr, p.ln_f_weight.value,
                         p.ln_f_bias.value, N, C);
  for (const Elements& range : gradients_.order()) {
    const int64_t in_head = range.first - head.offset;
    if (in_head < 0 || in_head >= head.count) continue;
    throw_if(interrupt_);
    gradients_.begin_rows(range);
    ops_.head_rows_backward(p.head.gradient, in_head / C, range.count / C, at.normed, p.head.act, at.targets, N, C,
                            config_.vocab_size, std::ldexp(1.0F, loss_scale_log2_));
    on_gradients(range.first, range.count);
  }
}

// The encoder's part of wte's gradient. Of one that is tied it goes to the head's, or apart from it, where whoever listens may
// have written over that. Else it is all of it: zeros, and rows of the tokens. Tells of wpe's, too.
void Gpt2::token_backward(const OnGradients& on_gradients) {
  const int64_t C = config_.n_embd, R = static_cast<int64_t>(distinct_.ids().size());
  const Activations& at = *activations_;
  float* const gradient = views_->wte.gradient;
  const int32_t *ids = at.token_runs, *starts = ids + R, *positions = starts + R + 1;
  if (rows_apart_) {
    ops_.zero(at.token_gradient, static_cast<size_t>(R * C) * sizeof(float));
    ops_.encoder_backward_tokens(at.token_gradient, at.dresidual, {nullptr, starts, positions, R}, C);
  } else if (table_.ties_head()) {
    ops_.encoder_backward_tokens(gradient, at.dresidual, {ids, starts, positions, R}, C);
  }
  if (on_gradients) on_gradients(table_.entries[1].offset, table_.entries[1].count);
  if (table_.ties_head()) return;
  for (const Elements& range : gradients_.order()) {
    if (range.first >= table_.entries.front().count) continue;
    gradients_.begin_rows(range);
    ops_.zero(gradient, static_cast<size_t>(range.count) * sizeof(float));
    const auto first = std::ranges::lower_bound(distinct_.ids(), range.first / C) - distinct_.ids().begin();
    const auto end = std::ranges::lower_bound(distinct_.ids(), (range.first + range.count) / C) - distinct_.ids().begin();
    float* const whole = gradient - range.first;  // as if all rows were there
    if (first < end)
      ops_.encoder_backward_tokens(whole, at.dresidual, {ids + first, starts + first, positions, end - first}, C);
    if (on_gradients) on_gradients(range.first, range.count);
  }
}

// Enters with the gradient of this layer's output in dresidual (float32) and branch (the same, cast); leaves with that of
// its input in both.
void Gpt2::layer_backward(int64_t layer, int64_t B, int64_t T, const std::function<void()>& part_done) {
  const int64_t C = config_.n_embd, N = B * T;
  const Activations& at = *activations_;
  const Activations::Layer& a = at.layers[layer];
  const ParameterViews::Layer& p = views_->layers[layer];

  drop(ops_, at.branch, dropped_.at(kernels::mlp_output_site(layer)), N, C);
  ops_.matmul_backward(at.wide, p.mlp_proj_weight.gradient, p.mlp_proj_bias.gradient, at.branch, a.gelu, a.pre_gelu,
                       p.mlp_proj_weight.act, N, 4 * C, C);
  part_done();
  ops_.layernorm_forward(at.normed, nullptr, at.mean, at.rstd, a.residual_mid, nullptr, p.ln_2_weight.value, p.ln_2_bias.value,
                         N, C);
  ops_.matmul_backward(at.dbranch, p.fc_weight.gradient, p.fc_bias.gradient, at.wide, at.normed, nullptr, p.fc_weight.act, N, C,
                       4 * C);
  ops_.layernorm_backward(at.dresidual, at.branch, p.ln_2_weight.gradient, p.ln_2_bias.gradient, at.dbranch, a.residual_mid,
                          p.ln_2_weight.value, at.mean, at.rstd, N, C);
  part_done();

  drop(ops_, at.branch, dropped_.at(kernels::attention_output_site(layer)), N, C);
  ops_.matmul_backward(at.dbranch, p.attn_proj_weight.gradient, p.attn_proj_bias.gradient, at.branch, a.attention, nullptr,
                       p.attn_proj_weight.act, N, C, C);
  ops_.attention_backward(at.wide, at.dbranch, a.qkv, a.attention, a.logsumexp, B, T, C, config_.n_head,
                          dropped_.at(kernels::attention_site(layer)));
  ops_.layernorm_forward(at.normed, nullptr, at.mean, at.rstd, a.residual_in, nullptr, p.ln_1_weight.value, p.ln_1_bias.value,
                         N, C);
  ops_.matmul_backward(at.dbranch, p.attn_weight.gradient, p.attn_bias.gradient, at.wide, at.normed, nullptr, p.attn_weight.act,
                       N, C, 3 * C);
  ops_.layernorm_backward(at.dresidual, layer == 0 ? nullptr : at.branch, p.ln_1_weight.gradient, p.ln_1_bias.gradient,
                          at.dbranch, a.residual_in, p.ln_1_weight.value, at.mean, at.rstd, N, C);
}

}  // namespace holdfast::model

#include "model/activations.h"

namespace holdfast::model {

namespace {

// Hands out consecutive, 64-byte aligned pieces. Run once over nothing to learn the size, once over the memory.
class Planner {
 public:
  explicit Planner(std::byte* memory) : memory_(memory) {}

  template <typename T>
  T* take(int64_t count, size_t element_bytes) {
    std::byte* piece = memory_ == nullptr ? nullptr : memory_ + used_;
    used_ += (static_cast<size_t>(count) * element_bytes + 63) / 64 * 64;
    return reinterpret_cast<T*>(piece);
  }
  size_t used() const { return used_; }

 private:
  std::byte* memory_;
  size_t used_ = 0;
};

size_t lay_out(Activations& at, const Gpt2Config& config, size_t act_bytes, int64_t B, Recompute recompute, std::byte* memory) {
  using kernels::Act;
  const int64_t C = config.n_embd, N = B * config.block_size;
  Planner planner(memory);
  const auto floats = [&planner](int64_t count) { return planner.take<float>(count, sizeof(float)); };
  const auto acts = [&planner, act_bytes](int64_t count) { return planner.take<Act>(count, act_bytes); };
  const auto ids = [&planner](int64_t count) { return planner.take<int32_t>(count, sizeof(int32_t)); };

  // Buffers that a layer does not keep lie where the first layer's lie.
  const Activations::Layer& first = at.layers.front();
  for (Activations::Layer& layer : at.layers) {
    const bool keeps_attention = &layer == &first || recompute == Recompute::kNone;
    const bool keeps_rest = &layer == &first || recompute != Recompute::kBlock;
    layer.residual_in = floats(N * C);
    layer.residual_mid = keeps_rest ? floats(N * C) : first.residual_mid;
    layer.qkv = keeps_attention ? acts(N * 3 * C) : first.qkv;
    layer.logsumexp = keeps_attention ? floats(N * config.n_head) : first.logsumexp;
    layer.attention = keeps_attention ? acts(N * C) : first.attention;
    layer.pre_gelu = keeps_rest ? acts(N * 4 * C) : first.pre_gelu;
    layer.gelu = keeps_rest ? acts(N * 4 * C) : first.gelu;
  }
  at.residual_final = floats(N * C);
  at.dresidual = floats(N * C);
  at.normed = acts(N * C);
  at.branch = acts(N * C);
  at.dbranch = acts(N * C);
  at.wide = acts(N * 4 * C);
  at.token_gradient = reinterpret_cast<float*>(at.wide);  // an activation has 2 bytes at least
  at.mean = floats(N);
  at.rstd = floats(N);
  at.losses = floats(N);
  at.tokens = ids(N);
  at.token_runs = ids(3 * N + 1);
  at.targets = ids(N);
  return planner.used();
}

}  // namespace

Activations::Activations(const Gpt2Config& config, kernels::DeviceOps& ops, int64_t batch_size, Recompute recompute)
    : layers(static_cast<size_t>(config.n_layer)) {
  const size_t act_bytes = kernels::dtype_size(ops.activation_dtype());
  arena_ = DeviceBuffer(ops, lay_out(*this, config, act_bytes, batch_size, recompute, nullptr));
  lay_out(*this, config, act_bytes, batch_size, recompute, arena_.data<std::byte>());
}

size_t Activations::bytes_needed(const Gpt2Config& config, size_t act_bytes, int64_t batch_size, Recompute recompute) {
  Activations nowhere(config);
  return lay_out(nowhere, config, act_bytes, batch_size, recompute, nullptr);
}

}  // namespace holdfast::model

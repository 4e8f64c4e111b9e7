// A model that is small enough for plain loops. No symmetry hides a wrong parameter: LayerNorm weights are not 1, biases not 0.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "kernels/ops.h"
#include "model/gpt2.h"
#include "model/random.h"

namespace holdfast::model {

inline const Gpt2Config kSmallConfig = {.n_layer = 2, .n_embd = 16, .n_head = 2, .vocab_size = 23, .block_size = 8};

// The same with a head of its own.
inline Gpt2Config untied(Gpt2Config config) {
  config.ties_head = false;
  return config;
}

inline std::vector<float> read_floats(kernels::DeviceOps& ops, const float* memory, int64_t count) {
  std::vector<float> values(static_cast<size_t>(count));
  ops.copy_to_host(values.data(), memory, values.size() * sizeof(float));
  return values;
}

inline void write_parameters(Gpt2& model, kernels::DeviceOps& ops, const std::vector<float>& values) {
  ops.copy_to_device(model.parameters(), values.data(), values.size() * sizeof(float));
  model.parameters_changed();
}

// Sets the initial parameters of `seed`, each changed by Normal(0, 0.1), and returns them.
inline std::vector<float> perturbed_parameters(Gpt2& model, kernels::DeviceOps& ops, uint64_t seed) {
  model.initialize(seed);
  std::vector<float> values = read_floats(ops, model.parameters(), model.table().total);
  for (size_t i = 0; i < values.size(); ++i) values[i] += static_cast<float>(0.1 * normal_at(seed, 1'000'000, i));
  write_parameters(model, ops, values);
  return values;
}

struct Microbatch {
  std::vector<int32_t> tokens, targets;  // (batch_size, block_size)
};

inline Microbatch random_microbatch(const Gpt2Config& config, int64_t batch_size, uint64_t seed) {
  Microbatch microbatch;
  const int64_t count = batch_size * config.block_size;
  for (int64_t i = 0; i < count; ++i) {
    const auto id_at = [&](int64_t n) {
      return static_cast<int32_t>(uniform_at(seed, 7, static_cast<uint64_t>(n)) * static_cast<double>(config.vocab_size));
    };
    microbatch.tokens.push_back(id_at(i));
    microbatch.targets.push_back(id_at(i + count));
  }
  return microbatch;
}

// A model and the op set on which it runs.
struct SmallModel {
  std::unique_ptr<kernels::DeviceOps> ops;
  Gpt2 gpt2;

  explicit SmallModel(std::unique_ptr<kernels::DeviceOps> its_ops, int64_t batch_size = 2,
                      const Gpt2Config& config = kSmallConfig, Recompute recompute = Recompute::kNone,
                      const ModelMemory& memory = {})
      : ops(std::move(its_ops)), gpt2(config, *ops, batch_size, recompute, memory) {}

  std::vector<float> gradients(const Microbatch& microbatch) {
    gpt2.train_microbatch(microbatch.tokens, microbatch.targets);
    return read_floats(*ops, gpt2.gradients(), gpt2.table().total);
  }
};

inline std::unique_ptr<kernels::DeviceOps> ref_float32() {
  return kernels::make_ref_ops(kernels::DType::kFloat32);
}

}  // namespace holdfast::model

// Trains a small GPT-2 from known weights on known batches, and writes everything that another implementation needs to do the
// same. torch_loss_test.py does so with PyTorch and compares the losses.
//
//   torch_loss_dump FOLDER OPS N_LAYER N_EMBD N_HEAD VOCAB_SIZE BLOCK_SIZE BATCH_SIZE STEPS DROPOUT HEAD
//                                                                              OPS: ref | cpu; HEAD: tied | own
//
// Writes into FOLDER: run.json (configuration, tensor table, losses, gradient norms), weights.bin (float32, in table
// order), inputs.bin and targets.bin (int32, (STEPS, BATCH_SIZE, BLOCK_SIZE)).
#include <cmath>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <vector>

#include "model/data/training_data.h"
#include "model/random.h"
#include "model/state/train_state.h"

namespace holdfast::model {
namespace {

constexpr uint64_t kSeed = 1234;

std::unique_ptr<kernels::DeviceOps> make_ops(const std::string& name) {
  if (name == "ref") return kernels::make_ref_ops(kernels::DType::kFloat32);
  if (name == "cpu") return kernels::make_cpu_ops(kernels::DType::kFloat32, 1);
  throw std::invalid_argument("OPS: \"" + name + "\", expected ref or cpu");
}

// Tokens from which a model can learn: each is mostly a fixed function of the two before it, and sometimes random.
std::vector<uint16_t> learnable_tokens(int64_t count, int64_t vocab_size) {
  std::vector<uint16_t> tokens = {1, 2};
  while (static_cast<int64_t>(tokens.size()) < count) {
    const size_t n = tokens.size();
    const double u = uniform_at(kSeed, 1, n);
    const int64_t next = u < 0.2 ? static_cast<int64_t>(u / 0.2 * static_cast<double>(vocab_size))
                                 : (tokens[n - 1] * 3 + tokens[n - 2] % 7) % vocab_size;
    tokens.push_back(static_cast<uint16_t>(next));
  }
  return tokens;
}

template <typename T>
void write_binary(const std::string& path, const std::vector<T>& values) {
  std::ofstream file(path, std::ios::binary);
  file.write(reinterpret_cast<const char*>(values.data()), static_cast<std::streamsize>(values.size() * sizeof(T)));
  if (!file) throw std::runtime_error(path + ": cannot be written");
}

nlohmann::json table_json(const ParameterTable& table) {
  nlohmann::json entries = nlohmann::json::array();
  for (const Parameter& parameter : table.entries) {
    entries.push_back({{"name", parameter.name},
                       {"shape", parameter.shape},
                       {"offset", parameter.offset},
                       {"count", parameter.count},
                       {"decay", parameter.decay}});
  }
  return entries;
}

nlohmann::json optimizer_json(const OptimizerConfig& config, int64_t steps) {
  std::vector<double> rates;
  for (int64_t step = 0; step < steps; ++step) rates.push_back(learning_rate_at(config, step));
  return {{"learning_rates", rates}, {"weight_decay", config.weight_decay}, {"beta1", config.beta1},
          {"beta2", config.beta2},   {"epsilon", config.epsilon},           {"grad_clip", config.grad_clip}};
}

void dump(const std::string& folder, const std::string& ops_name, const Gpt2Config& config, int64_t batch_size, int64_t steps,
          double dropout) {
  const auto ops = make_ops(ops_name);
  Gpt2 model(config, *ops, batch_size);
  model.set_recipe({.dropout = dropout, .seed = kSeed});
  model.initialize(kSeed);
  std::vector<float> weights(static_cast<size_t>(model.table().total));
  ops->copy_to_host(weights.data(), model.parameters(), weights.size() * sizeof(float));

  const OptimizerConfig optimizer = {.learning_rate = 3e-3,
                                     .min_lr = 3e-4,
                                     .warmup_steps = 10,
                                     .total_steps = steps,
                                     .weight_decay = 0.1,
                                     .beta1 = 0.9,
                                     .beta2 = 0.95,
                                     .epsilon = 1e-8,
                                     .grad_clip = 1.0};
  const std::vector<uint16_t> tokens = learnable_tokens(64 * config.block_size * batch_size + 1, config.vocab_size);
  const TrainingData data({{.tokens = tokens}}, kSeed, {batch_size, config.block_size, 1});
  TrainState state(model, *ops);
  std::vector<int32_t> inputs(static_cast<size_t>(batch_size * config.block_size)), targets(inputs.size());
  std::vector<int32_t> all_inputs, all_targets;
  std::vector<double> losses, norms;
  for (int64_t step = 0; step < steps; ++step) {
    data.fill(step, 0, inputs, targets);
    losses.push_back(model.train_microbatch(inputs, targets, nullptr, TiedGradient::kTogether, {step, 0}));
    norms.push_back(state.apply(optimizer, model.gradients()));
    all_inputs.insert(all_inputs.end(), inputs.begin(), inputs.end());
    all_targets.insert(all_targets.end(), targets.begin(), targets.end());
  }

  write_binary(folder + "/weights.bin", weights);
  write_binary(folder + "/inputs.bin", all_inputs);
  write_binary(folder + "/targets.bin", all_targets);
  const nlohmann::json run = {{"n_layer", config.n_layer},
                              {"n_embd", config.n_embd},
                              {"n_head", config.n_head},
                              {"vocab_size", config.vocab_size},
                              {"block_size", config.block_size},
                              {"batch_size", batch_size},
                              {"steps", steps},
                              {"dropout", dropout},
                              {"seed", kSeed},
                              {"optimizer", optimizer_json(optimizer, steps)},
                              {"table", table_json(model.table())},
                              {"losses", losses},
                              {"gradient_norms", norms}};
  std::ofstream(folder + "/run.json") << run.dump();
}

}  // namespace
}  // namespace holdfast::model

int main(int argc, char** argv) {
  if (argc != 12) {
    std::cerr << "torch_loss_dump FOLDER OPS N_LAYER N_EMBD N_HEAD VOCAB_SIZE BLOCK_SIZE BATCH_SIZE STEPS DROPOUT HEAD\n";
    return 2;
  }
  try {
    const auto number = [argv](int index) { return std::stoll(argv[index]); };
    const holdfast::model::Gpt2Config config = {.n_layer = number(3),
                                                .n_embd = number(4),
                                                .n_head = number(5),
                                                .vocab_size = number(6),
                                                .block_size = number(7),
                                                .ties_head = std::string(argv[11]) == "tied"};
    holdfast::model::dump(argv[1], argv[2], config, number(8), number(9), std::stod(argv[10]));
  } catch (const std::exception& error) {
    std::cerr << error.what() << "\n";
    return 1;
  }
  return 0;
}

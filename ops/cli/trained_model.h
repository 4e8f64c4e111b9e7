// The model of a checkpoint: its sizes, the tokenizer that it was trained with, and itself, ready to compute.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <tl/expected.hpp>

#include "kernels/ops.h"
#include "model/data/tokenizer.h"
#include "model/decode/choice.h"
#include "model/decode/decoder.h"
#include "model/parameter_table.h"
#include "ops/cli/checkpoint_place.h"
#include "ops/cli/command/command.h"
#include "storage/checkpoint.h"
#include "worker/devices/devices.h"

namespace holdfast::ops {

// Throws a Failure where such a model cannot be built.
model::Gpt2Config config_of(const storage::Manifest& manifest);

// The tokenizer that was named, or else the one beside the training file. The error says what to give.
tl::expected<std::unique_ptr<model::Tokenizer>, std::string> find_tokenizer(const std::string& named,
                                                                            const storage::Manifest& manifest);
// The same, of a tokenizer that the model knows all tokens of; else throws a Failure.
std::unique_ptr<model::Tokenizer> tokenizer_of(const std::string& named, const storage::Manifest& manifest);
void refuse_tokenizer_of_another(const model::Tokenizer& tokenizer, const storage::Manifest& manifest);

// The arguments of commands that compute with a checkpoint's model.
struct ModelArguments {
  std::string from, precision = "float32", device = "cpu";
  bool share_device = false;
  int threads;
  ModelArguments();
};
void add_model_arguments(CLI::App& command, ModelArguments& arguments);
void add_precision_arguments(CLI::App& command, ModelArguments& arguments);  // the same without --from
// --tokens, --temperature, --top_k, --top_p, --repetition_penalty, --seed, with what they are as defaults.
void add_text_arguments(CLI::App& command, model::TextOptions& options);
// --cache_mib and --batch_tokens, of commands that write many texts at once.
void add_batch_arguments(CLI::App& command, int64_t& cache_mib, int64_t& batch_tokens);
void add_tokenizer_argument(CLI::App& command, std::string& folder);

// The device that `arguments` name: no other program has it until this one gives it up. Throws a Failure.
worker::ChosenDevice device_of(const Options& options, const ModelArguments& arguments);

struct TrainedModel {
  storage::Manifest manifest;
  model::Gpt2Config config;
  std::unique_ptr<storage::ObjectStore> store;
};
// The checkpoint that `arguments` name. Throws a Failure.
TrainedModel find_model(const Options& options, const ModelArguments& arguments);

// The bits of a text are a function of it, the prompt and the options.
std::string fingerprint_of(const TrainedModel& model, const ModelArguments& arguments, const kernels::DeviceOps& ops);

// The layers of a divided model that are elsewhere, and those that are here.
struct DividedLayers {
  std::unique_ptr<model::EarlierLayers> earlier;
  model::LayerRange here;
};
// How a model is divided; by default it is not.
struct ModelDivision {
  model::LayerRange layers{};  // these alone, without those before them; end 0: all
  // Finds the layers that are elsewhere, of a model with this fingerprint.
  std::function<std::unique_ptr<DividedLayers>(const model::Gpt2Config& config, const model::Decoder::Limits& limits,
                                               size_t branch_bytes_of_a_row, const std::string& fingerprint)>
      earlier = nullptr;
};

struct ModelInMemory {
  std::unique_ptr<kernels::DeviceOps> ops;
  std::unique_ptr<DividedLayers> divided;  // null: all layers are here
  std::unique_ptr<model::Decoder> decoder;
};
// Its parameters, read and verified, on a device that is held longer. Throws a Failure.
ModelInMemory load_model(TrainedModel& model, const ModelArguments& arguments, const worker::ChosenDevice& device,
                         const model::Decoder::Limits& limits);
// With the limits that --cache_mib and --batch_tokens allow.
ModelInMemory load_model_for_many(TrainedModel& model, const ModelArguments& arguments, const worker::ChosenDevice& device,
                                  int64_t cache_mib, int64_t batch_tokens, const ModelDivision& division = {});

}  // namespace holdfast::ops

#include "ops/cli/trained_model.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <optional>
#include <thread>

#include "model/decode/precision.h"
#include "model/decode/source_values.h"
#include "model/exchange/checkpoint_config.h"
#include "model/exchange/checkpoint_weights.h"
#include "ops/cli/command/api.h"
#include "ops/cli/command/command.h"
#include "rendezvous/protocol/data_source.h"

namespace holdfast::ops {

model::Gpt2Config config_of(const storage::Manifest& manifest) {
  const model::Gpt2Config config = model::config_of(manifest);
  if (const auto problems = config.problems(); !problems.empty()) {
    throw Failure{kBadInput, fmt::format("the checkpoint's model cannot be built: {}", fmt::join(problems, "; "))};
  }
  return config;
}

tl::expected<std::unique_ptr<model::Tokenizer>, std::string> find_tokenizer(const std::string& named,
                                                                            const storage::Manifest& manifest) {
  const std::string path = named.empty() ? rendezvous::training_folder(text_at(manifest.spec, "train_data_path")) : named;
  if (path.empty()) {
    return tl::unexpected(fmt::format("no tokenizer is known, for the training data, {}, is no file: give --tokenizer DIR",
                                      text_at(manifest.spec, "train_data_path")));
  }
  return model::Tokenizer::load(path).map_error([&](const std::string& error) {
    return named.empty() ? fmt::format("no tokenizer beside the training file ({}): give --tokenizer DIR", error) : error;
  });
}

std::unique_ptr<model::Tokenizer> tokenizer_of(const std::string& named, const storage::Manifest& manifest) {
  auto tokenizer = find_tokenizer(named, manifest);
  if (!tokenizer) throw Failure{kBadInput, tokenizer.error()};
  refuse_tokenizer_of_another(**tokenizer, manifest);
  return *std::move(tokenizer);
}

void refuse_tokenizer_of_another(const model::Tokenizer& tokenizer, const storage::Manifest& manifest) {
  const int64_t known = model::config_of(manifest).vocab_size;
  if (tokenizer.vocab_size() > known) {
    throw Failure{kBadInput, fmt::format("the tokenizer has {} tokens and the model {}: it was trained with another tokenizer",
                                         tokenizer.vocab_size(), known)};
  }
}

ModelArguments::ModelArguments() : threads(static_cast<int>(std::clamp(std::thread::hardware_concurrency(), 1U, 16U))) {}

void add_model_arguments(CLI::App& command, ModelArguments& arguments) {
  command.add_option("place,--from,--checkpoint", arguments.from, "job:ID[@STEP], or a folder of checkpoints [PATH@STEP]")
      ->required()
      ->type_name("PLACE");
  add_precision_arguments(command, arguments);
}

namespace {

std::vector<std::string> names_of_precisions() {
  std::vector<std::string> names;
  for (const model::Precision& precision : model::kPrecisions) names.emplace_back(precision.name);
  return names;
}

}  // namespace

void add_precision_arguments(CLI::App& command, ModelArguments& arguments) {
  command
      .add_option("--precision", arguments.precision,
                  "Type to compute with: float32, bfloat16 or float16; int8, int4: bfloat16, with weights of 8 or 4 bits")
      ->check(CLI::IsMember(names_of_precisions()))
      ->capture_default_str();
  command
      .add_option(
          "--device", arguments.device,
          "cpu; auto: a GPU that no other program of Holdfast has, else the CPU; hip:N: the GPU of this number. What it "
          "writes may differ from one to another")
      ->check(CLI::Validator(
          [](const std::string& text) {
            return worker::is_device_name(text) ? "" : "expected auto, cpu, hip, hip:N (the GPU's number, from 0) or ref";
          },
          ""))
      ->capture_default_str()
      ->type_name("DEVICE");
  command.add_flag("--share_device", arguments.share_device, "Take a GPU also if a worker of this machine has it");
  command.add_option("--threads", arguments.threads, "Threads to compute with")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
}

void add_text_arguments(CLI::App& command, model::TextOptions& options) {
  command.add_option("--tokens", options.max_tokens, "Tokens to write at most")
      ->check(CLI::Range(1, 1000000))
      ->capture_default_str();
  command.add_option("--temperature", options.temperature, "0: always the likeliest")
      ->check(CLI::Range(0.0, 100.0))
      ->capture_default_str();
  command.add_option("--top_k", options.top_k, "Draw from so many likeliest; 0: from all")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  command.add_option("--top_p", options.top_p, "Draw from the likeliest that together have this probability")
      ->check(CLI::Range(0.0, 1.0))
      ->capture_default_str();
  command.add_option("--repetition_penalty", options.repetition_penalty, "Above 1: tokens that are there are less likely")
      ->check(CLI::Range(0.01, 100.0))
      ->capture_default_str();
  command.add_option("--seed", options.seed, "The same seed writes the same text")->capture_default_str();
}

void add_tokenizer_argument(CLI::App& command, std::string& folder) {
  command.add_option("--tokenizer", folder, "Folder that `data prepare` wrote [where the training file is]")->type_name("DIR");
}

void add_batch_arguments(CLI::App& command, int64_t& cache_mib, int64_t& batch_tokens) {
  command.add_option("--cache_mib", cache_mib, "Memory for keys and values of texts")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 24))
      ->capture_default_str()
      ->type_name("MIB");
  command.add_option("--batch_tokens", batch_tokens, "Tokens of one pass: half of it is the most texts at once")
      ->check(CLI::Range(int64_t{2}, int64_t{8192}))
      ->capture_default_str();
}

std::string fingerprint_of(const TrainedModel& model, const ModelArguments& arguments, const kernels::DeviceOps& ops) {
  return fmt::format("{}-{}-{}", model.manifest.state_hash.substr(0, 16), arguments.precision, ops.info().numerics);
}

TrainedModel find_model(const Options& options, const ModelArguments& arguments) {
  CheckpointPlace place = find_checkpoints(options, arguments.from);
  const int64_t step = place.step.value_or(steps_of(place).back());
  storage::Manifest manifest = value_of(storage::read_manifest(*place.store, step));
  const model::Gpt2Config config = config_of(manifest);
  return {std::move(manifest), config, std::move(place.store)};
}

worker::ChosenDevice device_of(const Options& options, const ModelArguments& arguments) {
  const worker::GpuLocks locks(worker::GpuLocks::usual_folders(), "holdfast");
  auto device =
      worker::choose_device(arguments.device, arguments.threads, options.gpus, -1, arguments.share_device ? nullptr : &locks);
  if (!device) throw Failure{kBadInput, device.error()};
  return *std::move(device);
}

namespace {

std::unique_ptr<kernels::DeviceOps> ops_of(const ModelArguments& arguments, const worker::ChosenDevice& device) {
  return device.make_ops(model::precision_named(arguments.precision).value().activations);
}

ModelInMemory load(TrainedModel& model, const ModelArguments& arguments, std::unique_ptr<kernels::DeviceOps> ops,
                   const model::Decoder::Limits& limits, const ModelDivision& division = {}) {
  std::unique_ptr<DividedLayers> divided;
  if (division.earlier) {
    const size_t branch = static_cast<size_t>(model.config.n_embd) * kernels::dtype_size(ops->activation_dtype());
    divided = division.earlier(model.config, limits, branch, fingerprint_of(model, arguments, *ops));
  }
  model::LayerRange layers = division.layers;
  if (layers.end == 0) layers = divided ? divided->here : model::LayerRange{0, model.config.n_layer};
  std::optional<storage::Error> failure;
  const model::SourceValues values(model::checkpoint_weights(*model.store, model.manifest, arguments.threads, failure));
  const kernels::WeightForm form = model::precision_named(arguments.precision).value().weights;
  auto decoder =
      model::Decoder::make_part(model.config, *ops, values, limits, form, layers, divided ? divided->earlier.get() : nullptr);
  if (failure) throw failure_of(*failure);
  if (!decoder) throw Failure{kJobFailed, decoder.error()};
  return {std::move(ops), std::move(divided), *std::move(decoder)};
}

}  // namespace

ModelInMemory load_model(TrainedModel& model, const ModelArguments& arguments, const worker::ChosenDevice& device,
                         const model::Decoder::Limits& limits) {
  return load(model, arguments, ops_of(arguments, device), limits);
}

ModelInMemory load_model_for_many(TrainedModel& model, const ModelArguments& arguments, const worker::ChosenDevice& device,
                                  int64_t cache_mib, int64_t batch_tokens, const ModelDivision& division) {
  auto ops = ops_of(arguments, device);
  const auto page_bytes = static_cast<int64_t>(model::Decoder::page_bytes(model.config, *ops));
  const int64_t longest = (model.config.block_size + kernels::kPageTokens - 1) / kernels::kPageTokens;
  return load(model, arguments, std::move(ops),
              {.pages = std::max(longest, (cache_mib << 20) / page_bytes),
               .rows = batch_tokens,
               .answers = std::max<int64_t>(1, batch_tokens / 2)},
              division);
}

}  // namespace holdfast::ops

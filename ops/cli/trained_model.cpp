#include "ops/cli/trained_model.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <thread>

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
  const int64_t known = model::config_of(manifest).vocab_size;
  if ((*tokenizer)->vocab_size() > known) {
    throw Failure{kBadInput, fmt::format("the tokenizer has {} tokens and the model {}: it was trained with another tokenizer",
                                         (*tokenizer)->vocab_size(), known)};
  }
  return *std::move(tokenizer);
}

ModelArguments::ModelArguments() : threads(static_cast<int>(std::clamp(std::thread::hardware_concurrency(), 1U, 16U))) {}

void add_model_arguments(CLI::App& command, ModelArguments& arguments) {
  command.add_option("--from,--checkpoint", arguments.from, "job:ID[@STEP], or a folder of checkpoints [PATH@STEP]")
      ->required()
      ->type_name("PLACE");
  command.add_option("--precision", arguments.precision, "Type to compute with: float32, bfloat16 or float16")
      ->check(CLI::IsMember({"float32", "bfloat16", "float16"}))
      ->capture_default_str();
  command.add_option("--threads", arguments.threads, "Threads to compute with")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
}

TrainedModel find_model(const Options& options, const ModelArguments& arguments) {
  CheckpointPlace place = find_checkpoints(options, arguments.from);
  const int64_t step = place.step.value_or(steps_of(place).back());
  storage::Manifest manifest = value_of(storage::read_manifest(*place.store, step));
  const model::Gpt2Config config = config_of(manifest);
  return {std::move(manifest), config, std::move(place.store)};
}

ModelInMemory load_model(TrainedModel& model, const ModelArguments& arguments, const model::Decoder::Limits& limits) {
  ModelInMemory loaded;
  loaded.ops = kernels::make_cpu_ops(kernels::dtype_named(arguments.precision).value(), arguments.threads);
  std::optional<storage::Error> failure;
  const model::SourceValues values(model::checkpoint_weights(*model.store, model.manifest, arguments.threads, failure));
  auto decoder = model::Decoder::make(model.config, *loaded.ops, values, limits);
  if (failure) throw failure_of(*failure);
  if (!decoder) throw Failure{kJobFailed, decoder.error()};
  loaded.decoder = *std::move(decoder);
  return loaded;
}

}  // namespace holdfast::ops

// `holdfast sample`: text from a checkpoint, shown as it is generated.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <thread>

#include "kernels/ops.h"
#include "model/data/tokenizer.h"
#include "model/gpt2.h"
#include "model/sample.h"
#include "ops/cli/checkpoint_place.h"
#include "ops/cli/command/api.h"
#include "ops/cli/command/command.h"
#include "ops/cli/trained_model.h"

namespace holdfast::ops {
namespace {

struct SampleArguments {
  std::string from, tokenizer, prompt;
  model::SampleOptions sampling{.max_tokens = 200, .temperature = 0.8, .top_k = 50};
  int threads = static_cast<int>(std::clamp(std::thread::hardware_concurrency(), 1U, 16U));
};

void load_parameters(model::Gpt2& net, storage::ObjectStore& store, int64_t step, int threads) {
  std::vector<storage::MutableTensor> tensors;
  for (const model::Parameter& parameter : net.table().entries) {
    const auto floats = std::span(net.parameters() + parameter.offset, static_cast<size_t>(parameter.count));
    tensors.push_back({parameter.name, "float32", parameter.shape, std::as_writable_bytes(floats)});
  }
  value_of(storage::read_tensors(store, step, tensors, threads));
  net.parameters_changed();
}

std::vector<int32_t> context_of(const model::Tokenizer& tokenizer, const std::string& prompt) {
  std::vector<int32_t> ids = tokenizer.encode(prompt);
  if (!ids.empty()) return ids;
  if (tokenizer.end_of_document() >= 0) return {tokenizer.end_of_document()};  // as at the beginning of a document
  return tokenizer.encode("\n");
}

void generate(const Options& options, const SampleArguments& arguments) {
  CheckpointPlace place = find_checkpoints(options, arguments.from);
  const int64_t step = place.step.value_or(steps_of(place).back());
  const storage::Manifest manifest = value_of(storage::read_manifest(*place.store, step));
  const model::Gpt2Config config = config_of(manifest);
  const auto tokenizer = find_tokenizer(arguments.tokenizer, manifest);
  if (!tokenizer) throw Failure{kBadInput, tokenizer.error()};
  if ((*tokenizer)->vocab_size() > config.vocab_size) {
    throw Failure{kBadInput, fmt::format("the tokenizer has {} tokens and the model {}: it was trained with another tokenizer",
                                         (*tokenizer)->vocab_size(), config.vocab_size)};
  }
  const auto ops = kernels::make_cpu_ops(kernels::DType::kFloat32, arguments.threads);
  model::Gpt2 net(config, *ops, 1);
  load_parameters(net, *place.store, step, arguments.threads);
  model::SampleOptions sampling = arguments.sampling;
  sampling.stop_id = (*tokenizer)->end_of_document();
  sampling.vocabulary_limit = (*tokenizer)->vocab_size();
  model::TextStream text(**tokenizer);
  std::string all;
  const auto show = [&](const std::string& piece) {
    all += piece;
    if (options.json) return;
    fmt::print("{}", piece);
    std::fflush(stdout);
  };
  if (!options.json) fmt::print("{}", arguments.prompt);
  const auto ids = model::sample(net, context_of(**tokenizer, arguments.prompt), sampling, [&](int32_t id) {
    show(text.add(id));
    return true;
  });
  show(text.finish());
  if (!options.json) fmt::print("\n");
  if (options.json) print_json({{"step", step}, {"prompt", arguments.prompt}, {"text", all}, {"tokens", ids.size()}});
}

}  // namespace

void add_sample_command(CLI::App& app, Options& options) {
  const auto arguments = std::make_shared<SampleArguments>();
  CLI::App* command = add_command(app, options, "sample", "Write text with a checkpoint's model",
                                  "holdfast sample --from job:j1 --tokenizer data --prompt \"The \" --tokens 100");
  command->add_option("--from,--checkpoint", arguments->from, "job:ID[@STEP], or a folder of checkpoints [PATH@STEP]")
      ->required()
      ->type_name("PLACE");
  command->add_option("--tokenizer", arguments->tokenizer, "Folder that `data prepare` wrote [where the training file is]")
      ->type_name("DIR");
  command->add_option("--prompt", arguments->prompt, "Text to go on from")->type_name("TEXT");
  command->add_option("--tokens", arguments->sampling.max_tokens, "Tokens to write at most")
      ->check(CLI::Range(1, 1000000))
      ->capture_default_str();
  command->add_option("--temperature", arguments->sampling.temperature, "0: always the likeliest")
      ->check(CLI::Range(0.0, 100.0))
      ->capture_default_str();
  command->add_option("--top_k", arguments->sampling.top_k, "Draw from so many likeliest; 0: from all")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  command->add_option("--seed", arguments->sampling.seed, "The same seed writes the same text")->capture_default_str();
  command->add_option("--threads", arguments->threads, "Threads to compute with")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  command->callback([&options, arguments] { generate(options, *arguments); });
}

}  // namespace holdfast::ops

// `holdfast sample`: text from a checkpoint, shown as it is generated.
#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <cstdio>

#include "model/data/tokenizer.h"
#include "model/sample.h"
#include "ops/cli/command/api.h"
#include "ops/cli/command/command.h"
#include "ops/cli/trained_model.h"

namespace holdfast::ops {
namespace {

struct SampleArguments {
  ModelArguments model;
  std::string tokenizer, prompt;
  model::TextOptions sampling{.max_tokens = 200, .temperature = 0.8, .top_k = 50};
};

std::vector<int32_t> context_of(const model::Tokenizer& tokenizer, const std::string& prompt) {
  std::vector<int32_t> ids = tokenizer.encode(prompt);
  if (!ids.empty()) return ids;
  if (tokenizer.end_of_document() >= 0) return {tokenizer.end_of_document()};  // as at the beginning of a document
  return tokenizer.encode("\n");
}

void generate(const Options& options, const SampleArguments& arguments) {
  TrainedModel trained = find_model(options, arguments.model);
  const auto tokenizer = tokenizer_of(arguments.tokenizer, trained.manifest);
  const int64_t block_size = trained.config.block_size;
  const worker::ChosenDevice device = device_of(options, arguments.model);
  const auto [ops, divided, decoder] = load_model(trained, arguments.model, device,
                                                  {.pages = (block_size + kernels::kPageTokens - 1) / kernels::kPageTokens,
                                                   .rows = std::min<int64_t>(block_size, 256),
                                                   .answers = 128});
  model::TextOptions sampling = arguments.sampling;
  if (tokenizer->end_of_document() >= 0) sampling.stop_ids = {tokenizer->end_of_document()};
  sampling.vocabulary_limit = tokenizer->vocab_size();
  model::TextStream text(*tokenizer);
  std::string all;
  const auto show = [&](const std::string& piece) {
    all += piece;
    if (options.json) return;
    fmt::print("{}", piece);
    std::fflush(stdout);
  };
  if (!options.json) fmt::print("{}", arguments.prompt);
  const auto ids = model::sample(*decoder, context_of(*tokenizer, arguments.prompt), sampling, [&](int32_t id) {
    show(text.add(id));
    return true;
  });
  show(text.finish());
  if (!options.json) fmt::print("\n");
  if (options.json)
    print_json({{"step", trained.manifest.step}, {"prompt", arguments.prompt}, {"text", all}, {"tokens", ids.size()}});
}

}  // namespace

void add_sample_command(CLI::App& app, Options& options) {
  const auto arguments = std::make_shared<SampleArguments>();
  CLI::App* command = add_command(app, options, "sample", "Write text with a checkpoint's model",
                                  "holdfast sample --from job:j1 --tokenizer data --prompt \"The \" --tokens 100");
  add_model_arguments(*command, arguments->model);
  add_tokenizer_argument(*command, arguments->tokenizer);
  command->add_option("--prompt", arguments->prompt, "Text to go on from")->type_name("TEXT");
  add_text_arguments(*command, arguments->sampling);
  command->callback([&options, arguments] { generate(options, *arguments); });
}

}  // namespace holdfast::ops

// `holdfast ckpt export`: a checkpoint's model as a file of another program.
#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "model/exchange/checkpoint_weights.h"
#include "model/exchange/export.h"
#include "ops/cli/checkpoint_place.h"
#include "ops/cli/command/api.h"
#include "ops/cli/command/command.h"
#include "ops/cli/terminal/format.h"
#include "ops/cli/trained_model.h"

namespace holdfast::ops {
namespace {

struct ExportArguments {
  std::string place, format, dtype = "float32", tokenizer, output;
  int threads = 1;
};

using FoundTokenizer = tl::expected<std::unique_ptr<model::Tokenizer>, std::string>;

// No tokenizer beside the training file is a matter of words, where the format does without.
FoundTokenizer tokenizer_for(const ExportArguments& arguments, const storage::Manifest& manifest) {
  FoundTokenizer found = find_tokenizer(arguments.tokenizer, manifest);
  if (found) return found;
  if (!arguments.tokenizer.empty()) throw Failure{kBadInput, found.error()};
  if (arguments.format == "gguf")
    throw Failure{kBadInput, "GGUF has the tokenizer inside, and there is none: " + found.error()};
  return found;
}

void print_exported(const Options& options, const ExportArguments& arguments, const storage::Manifest& manifest,
                    const FoundTokenizer& tokenizer, const std::vector<model::ExportedFile>& files) {
  if (options.json) {
    Json listed = Json::array();
    for (const auto& file : files) listed.push_back({{"path", file.path}, {"bytes", file.bytes}});
    return print_json({{"job", manifest.job},
                       {"step", manifest.step},
                       {"state_hash", manifest.state_hash},
                       {"format", arguments.format},
                       {"dtype", arguments.dtype},
                       {"tokenizer", tokenizer ? Json((*tokenizer)->kind()) : Json(nullptr)},
                       {"files", listed}});
  }
  fmt::print("Step {} of {}, {} in {}:\n", manifest.step, manifest.job, arguments.format, arguments.dtype);
  for (const auto& file : files) fmt::print("  {}  {}\n", file.path, bytes_text(static_cast<double>(file.bytes)));
  if (!tokenizer) fmt::print("Without a tokenizer: {}.\n", tokenizer.error());
}

void export_checkpoint(const Options& options, const ExportArguments& arguments) {
  CheckpointPlace place = find_checkpoints(options, arguments.place);
  const int64_t step = place.step.value_or(steps_of(place).back());
  const storage::Manifest manifest = value_of(storage::read_manifest(*place.store, step));
  const FoundTokenizer tokenizer = tokenizer_for(arguments, manifest);
  model::ExportRequest request;
  request.format = model::exchange_format(arguments.format).value();
  request.dtype = kernels::dtype_named(arguments.dtype).value();
  request.tokenizer = tokenizer ? tokenizer->get() : nullptr;
  request.folder = arguments.output;
  request.name = fmt::format("{} step {}", manifest.job, step);
  std::optional<storage::Error> failure;
  const auto weights = model::checkpoint_weights(*place.store, manifest, arguments.threads, failure);
  const auto files = model::export_model(weights, request);
  if (failure) throw failure_of(*failure);
  if (!files) throw Failure{kBadInput, files.error()};
  print_exported(options, arguments, manifest, tokenizer, *files);
}

}  // namespace

void add_export_command(CLI::App& ckpt, Options& options) {
  const auto arguments = std::make_shared<ExportArguments>();
  CLI::App* command = add_command(ckpt, options, "export", "Write a checkpoint's model for other programs",
                                  "holdfast ckpt export job:j1 --format gguf --output gpt2-j1");
  command->add_option("checkpoints", arguments->place, kPlaceHelp)->required()->type_name("PLACE");
  command->add_option("--format", arguments->format, "For transformers, llama.cpp or numpy")
      ->required()
      ->check(CLI::IsMember(std::vector<std::string>(std::begin(model::kExchangeFormats), std::end(model::kExchangeFormats))));
  command->add_option("--dtype", arguments->dtype, "Type of the parameters there, rounded to nearest")
      ->check(CLI::IsMember({"float32", "float16", "bfloat16"}))
      ->capture_default_str();
  command->add_option("--tokenizer", arguments->tokenizer, "Folder that `data prepare` wrote [where the training file is]")
      ->type_name("DIR");
  command->add_option("--output,-o", arguments->output, "Folder to write to")->required()->type_name("DIR");
  command->add_option("--threads", arguments->threads, "Threads that unpack")->check(CLI::Range(1, 256))->capture_default_str();
  command->callback([&options, arguments] { export_checkpoint(options, *arguments); });
}

}  // namespace holdfast::ops

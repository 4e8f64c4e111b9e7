// `holdfast generate`: texts for a file of requests, with a checkpoint's model.
#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <optional>

#include "ops/cli/command/api.h"
#include "ops/cli/command/command.h"
#include "ops/cli/terminal/format.h"
#include "ops/cli/terminal/progress_line.h"
#include "ops/cli/trained_model.h"
#include "rendezvous/text/plural.h"
#include "worker/serving/request_file.h"

namespace holdfast::ops {
namespace {

struct GenerateArguments {
  ModelArguments model;
  std::string tokenizer, input, output;
  model::TextOptions texts{.max_tokens = 100, .temperature = 0.8, .top_k = 50, .seed = 1};
  int64_t cache_mib = 1024, batch_tokens = 256;
};

std::string progress_text(const worker::RequestFileProgress& progress, double elapsed_s) {
  const int64_t done = progress.answered - progress.gone_on_from, left = progress.requests - progress.answered;
  std::string text = fmt::format("writing {}  {} of {} requests", bar_text(progress.answered, progress.requests),
                                 count_text(progress.answered), count_text(progress.requests));
  if (elapsed_s >= 1) text += fmt::format(", {:.0f} tokens/s", static_cast<double>(progress.written_tokens) / elapsed_s);
  if (elapsed_s >= 1 && done > 0) {
    text += fmt::format(", {} left", duration_text(elapsed_s * static_cast<double>(left) / static_cast<double>(done)));
  }
  return text;
}

void generate(const Options& options, const GenerateArguments& arguments) {
  TrainedModel trained = find_model(options, arguments.model);
  const auto tokenizer = tokenizer_of(arguments.tokenizer, trained.manifest);
  const worker::ChosenDevice device = device_of(options, arguments.model);
  const auto [ops, divided, decoder] =
      load_model_for_many(trained, arguments.model, device, arguments.cache_mib, arguments.batch_tokens);
  worker::RequestFile file{.requests = arguments.input,
                           .answers = arguments.output,
                           .model = trained.manifest.job,
                           .fingerprint = fingerprint_of(trained, arguments.model, *ops),
                           .step = trained.manifest.step,
                           .seed = arguments.texts.seed,
                           .defaults = {{"max_tokens", arguments.texts.max_tokens},
                                        {"temperature", arguments.texts.temperature},
                                        {"top_k", arguments.texts.top_k},
                                        {"top_p", arguments.texts.top_p},
                                        {"repetition_penalty", arguments.texts.repetition_penalty}},
                           .texts_at_once = arguments.batch_tokens};
  std::optional<ProgressLine> line(std::in_place);
  if (!options.json) {
    file.on_progress = [&](const worker::RequestFileProgress& now) {
      line->draw([&](double elapsed_s) { return progress_text(now, elapsed_s); });
    };
  }
  const auto done = worker::write_answers(file, *decoder, *tokenizer, trained.config.block_size);
  line.reset();
  if (!done) throw Failure{kBadInput, done.error()};
  if (options.json) {
    return print_json({{"output", arguments.output},
                       {"requests", done->requests},
                       {"gone_on_from", done->gone_on_from},
                       {"written_tokens", done->written_tokens}});
  }
  if (done->gone_on_from > 0)
    fmt::print("Went on from the {} that an interrupted run had answered.\n", count_text(done->gone_on_from));
  fmt::print("Wrote {}: answers to {}, {} tokens now.\n", arguments.output, rendezvous::counted(done->requests, "request"),
             count_text(done->written_tokens));
}

}  // namespace

void add_generate_command(CLI::App& app, Options& options) {
  const auto arguments = std::make_shared<GenerateArguments>();
  CLI::App* command =
      add_command(app, options, "generate", "Write texts for a file of requests with a checkpoint's model",
                  "holdfast generate --from job:j1 --tokenizer data --input prompts.jsonl --output texts.jsonl");
  add_model_arguments(*command, arguments->model);
  add_tokenizer_argument(*command, arguments->tokenizer);
  command
      ->add_option("--input", arguments->input,
                   "Requests, a line of JSON each: {\"prompt\": \"Once\"}, and any field of /v1/completions; \"id\" comes back")
      ->required()
      ->check(CLI::ExistingFile)
      ->type_name("FILE");
  command
      ->add_option("--output", arguments->output,
                   "Answers, in the order of the requests; until all are there OUTPUT.part has them")
      ->required()
      ->type_name("FILE");
  add_text_arguments(*command, arguments->texts);
  add_batch_arguments(*command, arguments->cache_mib, arguments->batch_tokens);
  command->callback([&options, arguments] { generate(options, *arguments); });
}

}  // namespace holdfast::ops

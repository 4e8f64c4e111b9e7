// `holdfast eval`: the loss of a checkpoint's model on a token file.
#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <numeric>

#include "model/data/data_order.h"
#include "model/data/token_file.h"
#include "ops/cli/command/api.h"
#include "ops/cli/command/command.h"
#include "ops/cli/trained_model.h"

namespace holdfast::ops {
namespace {

struct EvaluateArguments {
  ModelArguments model;
  std::string data;
  int64_t windows = 0;
};

constexpr int64_t kRows = 256;  // of a window that are computed at once

// The sum of the losses of a window's tokens, which are those of the training's forward pass.
double loss_of(model::Decoder& decoder, std::span<const int32_t> inputs, std::span<const int32_t> targets,
               std::span<const int32_t> pages) {
  double sum = 0;
  for (size_t first = 0; first < inputs.size(); first += kRows) {
    const size_t count = std::min<size_t>(kRows, inputs.size() - first);
    const model::Feed feed{inputs.subspan(first, count), static_cast<int64_t>(first), pages, static_cast<int64_t>(count)};
    decoder.feed({&feed, 1});
    for (const float loss : decoder.losses(targets.subspan(first, count))) sum += loss;
  }
  return sum;
}

void evaluate(const Options& options, const EvaluateArguments& arguments) {
  TrainedModel trained = find_model(options, arguments.model);
  const auto file = model::TokenFile::open(arguments.data);
  if (!file) throw Failure{kBadInput, file.error()};
  if (const auto known = (*file)->check_ids(trained.config.vocab_size); !known) throw Failure{kBadInput, known.error()};
  const int64_t block_size = trained.config.block_size, there = model::windows_in((*file)->tokens(), block_size);
  if (there == 0) {
    throw Failure{kBadInput, fmt::format("{} has {} tokens, expected more than the model's block_size {}", arguments.data,
                                         (*file)->tokens().size(), block_size)};
  }
  const int64_t windows = arguments.windows == 0 ? there : std::min(arguments.windows, there);
  std::vector<int32_t> pages(static_cast<size_t>((block_size + kernels::kPageTokens - 1) / kernels::kPageTokens));
  std::iota(pages.begin(), pages.end(), 0);
  const worker::ChosenDevice device = device_of(options, arguments.model);
  const auto [ops, divided, decoder] = load_model(
      trained, arguments.model, device, {.pages = static_cast<int64_t>(pages.size()), .rows = kRows, .answers = kRows});
  const auto begun = std::chrono::steady_clock::now();
  std::vector<int32_t> inputs(static_cast<size_t>(block_size)), targets(inputs.size());
  double sum = 0;
  for (int64_t window = 0; window < windows; ++window) {
    model::fill_evaluation((*file)->tokens(), {1, block_size, 1}, window, inputs, targets);
    sum += loss_of(*decoder, inputs, targets, pages);
  }
  const double loss = sum / static_cast<double>(windows * block_size);
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count();
  if (options.json) {
    print_json({{"step", trained.manifest.step},
                {"loss", loss},
                {"perplexity", std::exp(loss)},
                {"windows", windows},
                {"tokens", windows * block_size},
                {"precision", arguments.model.precision},
                {"seconds", seconds}});
    return;
  }
  fmt::print("Loss {:.6f} (perplexity {:.3f}) of step {} on {}: {} windows of {} tokens, {}, {:.0f} tokens/s.\n", loss,
             std::exp(loss), trained.manifest.step, arguments.data, windows, block_size, arguments.model.precision,
             static_cast<double>(windows * block_size) / seconds);
}

}  // namespace

void add_evaluate_command(CLI::App& app, Options& options) {
  const auto arguments = std::make_shared<EvaluateArguments>();
  CLI::App* command = add_command(app, options, "eval", "Loss and perplexity of a checkpoint's model on a token file",
                                  "holdfast eval job:j1 --data data/val.bin");
  add_model_arguments(*command, arguments->model);
  command->add_option("--data", arguments->data, "Token file, as `data prepare` writes it")->required()->type_name("FILE");
  command->add_option("--windows", arguments->windows, "So many windows of block_size tokens from its beginning; 0: all")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  command->callback([&options, arguments] { evaluate(options, *arguments); });
}

}  // namespace holdfast::ops

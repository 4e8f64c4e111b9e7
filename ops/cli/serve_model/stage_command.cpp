// `holdfast serve-stage`: some layers of a checkpoint's model, for a `holdfast serve-model --stage` that has the others.
#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <charconv>

#include "ops/cli/serve_model/server_arguments.h"
#include "ops/cli/terminal/format.h"
#include "ops/cli/trained_model.h"
#include "worker/serving/stages/stage_server.h"

namespace holdfast::ops {
namespace {

struct StageArguments {
  ModelArguments model;
  ServerArguments server;
  std::string layers;
  int64_t cache_mib = 1024, batch_tokens = 256;
};

// "0:6": layers 0 to 5.
model::LayerRange layers_of(const std::string& text, int64_t n_layer) {
  model::LayerRange layers;
  const char* const end = text.data() + text.size();
  const auto [colon, first_error] = std::from_chars(text.data(), end, layers.first);
  const bool has_colon = first_error == std::errc() && colon != end && *colon == ':';
  const auto last =
      has_colon ? std::from_chars(colon + 1, end, layers.end) : std::from_chars_result{end, std::errc::invalid_argument};
  if (last.ec != std::errc() || last.ptr != end || layers.first < 0 || layers.first >= layers.end || layers.end >= n_layer) {
    throw Failure{kBadInput,
                  fmt::format("--layers {}: expected FIRST:END, such as 0:{} for the first {} of the model's {} layers; "
                              "the last layer is serve-model's own",
                              text, (n_layer + 1) / 2, (n_layer + 1) / 2, n_layer)};
  }
  return layers;
}

void serve_stage(const Options& options, const StageArguments& arguments) {
  hold_ending_signals();
  TrainedModel trained = find_model(options, arguments.model);
  const model::LayerRange layers = layers_of(arguments.layers, trained.config.n_layer);
  const std::set<std::string> tokens = tokens_of(arguments.server);
  rendezvous::HttpServerOptions http = http_options(arguments.server, tokens);
  const worker::ChosenDevice device = device_of(options, arguments.model);
  const ModelInMemory memory =
      load_model_for_many(trained, arguments.model, device, arguments.cache_mib, arguments.batch_tokens, {.layers = layers});
  const auto& limits = memory.decoder->limits();
  http.max_body_bytes = worker::kPassBytesMax;
  worker::StageApi api(*memory.decoder,
                       {.fingerprint = fingerprint_of(trained, arguments.model, *memory.ops),
                        .layers = layers,
                        .rows = limits.rows,
                        .pages = limits.pages},
                       tokens);
  const auto server =
      rendezvous::HttpServer::start(http, [&api](const rendezvous::HttpRequest& head) { return api.gate(head); });
  if (!server) throw Failure{kBadInput, server.error()};
  const auto use = memory.decoder->memory_use();
  fmt::print(stderr, "Layers {} to {} of {}'s {} (step {}, {}) at {}://{}: {} of weights, {} for {} tokens of texts.\n",
             layers.first, layers.end - 1, trained.manifest.job, trained.config.n_layer, trained.manifest.step,
             arguments.model.precision, arguments.server.scheme(), arguments.server.address((*server)->port()),
             bytes_text(static_cast<double>(use.weights)), bytes_text(static_cast<double>(use.pages)),
             limits.pages * kernels::kPageTokens);
  await_ending_signal();
}

}  // namespace

void add_serve_stage_command(CLI::App& app, Options& options) {
  const auto arguments = std::make_shared<StageArguments>();
  CLI::App* command = add_command(app, options, "serve-stage", "Hold some layers of a model for serve-model on another machine",
                                  "holdfast serve-stage --from job:j1 --layers 0:6 --listen 127.0.0.1:8100");
  add_model_arguments(*command, arguments->model);
  command->add_option("--layers", arguments->layers, "Layers to hold, counted from 0: from FIRST up to, not including, END")
      ->required()
      ->type_name("FIRST:END");
  add_server_arguments(*command, arguments->server, "127.0.0.1:8100");
  add_batch_arguments(*command, arguments->cache_mib, arguments->batch_tokens);
  command->callback([&options, arguments] { serve_stage(options, *arguments); });
}

}  // namespace holdfast::ops

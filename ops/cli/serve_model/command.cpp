// `holdfast serve-model`: a checkpoint's model behind OpenAI's API, in this process.
#include <fmt/format.h>
#include <unistd.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <fstream>
#include <mutex>
#include <set>
#include <thread>

#include "ops/cli/command/command.h"
#include "ops/cli/serve_model/server_arguments.h"
#include "ops/cli/terminal/format.h"
#include "ops/cli/trained_model.h"
#include "rendezvous/http/server.h"
#include "worker/serving/completions_api.h"
#include "worker/serving/stages/remote_stages.h"

namespace holdfast::ops {
namespace {

struct ServeModelArguments {
  std::vector<std::string> from, names;
  ModelArguments model;  // of all, but for `from`
  ServerArguments server;
  std::string tokenizer;
  std::vector<std::string> stages;  // URLs
  std::string stage_token_file;
  bool follow = false;
  int64_t cache_mib = 1024, batch_tokens = 256, queue = 256, timeout_s = 600;
  bool logs_requests = false;
};

// A model that is served: where it comes from, and what it is called.
struct Source {
  ModelArguments from;
  std::string name;
};

std::string token_in(const std::string& file) {
  if (file.empty()) return "";
  std::ifstream lines(file);
  std::string token;
  std::getline(lines, token);
  return token;
}

// A lost stage ends the server: whoever starts it again gets the same texts.
struct Ending {
  std::mutex mutex;
  std::string why;
  void ask(const std::string& reason) {
    {
      const std::lock_guard lock(mutex);
      why = reason;
    }
    kill(getpid(), SIGTERM);
  }
};

worker::ServedModel served_model(const ServeModelArguments& arguments, const Source& source, TrainedModel& trained,
                                 const worker::ChosenDevice& device, Ending& ending) {
  ModelDivision division;
  if (!arguments.stages.empty()) {
    division.earlier = [&](const model::Gpt2Config& config, const model::Decoder::Limits& limits, size_t branch_bytes_of_a_row,
                           const std::string& fingerprint) -> std::unique_ptr<DividedLayers> {
      std::vector<rendezvous::StageAddress> addresses;
      for (const std::string& url : arguments.stages)
        addresses.push_back({.url = url, .key = token_in(arguments.stage_token_file)});
      auto stages = worker::RemoteStages::connect(addresses, {fingerprint, config, limits, branch_bytes_of_a_row});
      if (!stages) throw Failure{kBadInput, stages.error().why};
      const model::LayerRange rest{(*stages)->end_layer(), config.n_layer};
      return std::make_unique<DividedLayers>(DividedLayers{*std::move(stages), rest});
    };
  }
  const auto memory = std::make_shared<const ModelInMemory>(
      load_model_for_many(trained, source.from, device, arguments.cache_mib, arguments.batch_tokens, division));
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return {.name = source.name,
          .fingerprint = fingerprint_of(trained, source.from, *memory->ops),
          .config = trained.config,
          .created_s = std::chrono::duration_cast<std::chrono::seconds>(now).count(),
          .step = trained.manifest.step,
          .memory = memory,
          .texts =
              std::make_unique<worker::TextServer>(*memory->decoder, arguments.queue, [&ending](const std::exception& failure) {
                const bool stage = dynamic_cast<const worker::StageLost*>(&failure) != nullptr;
                ending.ask(failure.what() + std::string(stage ? "; start it again when the stages are there" : ""));
              })};
}

// A newer checkpoint takes the place of the one that is served. A failure is said, once, and tried again.
class Follower {
 public:
  Follower(const Options& options, const ServeModelArguments& arguments, const Source& source,
           const worker::ChosenDevice& device, worker::ServedModels& models, Ending& ending)
      : options_(options), arguments_(arguments), source_(source), device_(device), models_(models), ending_(ending) {}

 private:
  void run(const std::stop_token& stop) {
    std::string last_failure;
    while (!stop.stop_requested()) {
      std::unique_lock lock(mutex_);
      if (stopped_.wait_for(lock, stop, kLookEvery, [] { return false; }); stop.stop_requested()) return;
      lock.unlock();
      if (models_.forget_finished() > 0) continue;  // there is room for two
      std::string failure;
      try {
        look();
      } catch (const kernels::DeviceFailure& failed) {  // nothing works on it any more, in this process
        return ending_.ask(failed.what());
      } catch (const Failure& failed) {
        failure = failed.message;
      } catch (const std::exception& failed) {
        failure = failed.what();
      }
      if (!failure.empty() && failure != last_failure)
        fmt::print(stderr, "No newer checkpoint of {} is served, and it is tried again: {}\n", source_.name, failure);
      last_failure = failure;
    }
  }
  void look() {
    CheckpointPlace place = find_checkpoints(options_, source_.from.from);
    if (steps_of(place).back() == models_.now()->step) return;
    TrainedModel trained = find_model(options_, source_.from);
    models_.replace(served_model(arguments_, source_, trained, device_, ending_));
    fmt::print(stderr, "Serving step {} of {} from now on.\n", trained.manifest.step, source_.name);
  }

  static constexpr auto kLookEvery = std::chrono::seconds(2);
  const Options& options_;
  const ServeModelArguments& arguments_;
  const Source& source_;
  const worker::ChosenDevice& device_;
  worker::ServedModels& models_;
  Ending& ending_;
  std::mutex mutex_;
  std::condition_variable_any stopped_;
  std::jthread thread_{[this](const std::stop_token& stop) { run(stop); }};  // last: it uses all of these
};

void say_what_is_served(const worker::ServedModel& served, const ServeModelArguments& arguments, int port) {
  const auto& decoder = *std::static_pointer_cast<const ModelInMemory>(served.memory)->decoder;
  const auto memory = decoder.memory_use();
  fmt::print(stderr, "Serving {} (step {}, {}) at {}://{}/v1: {} of weights, {} for {} tokens of texts.\n", served.name,
             served.step, arguments.model.precision, arguments.server.scheme(), arguments.server.address(port),
             bytes_text(static_cast<double>(memory.weights)), bytes_text(static_cast<double>(memory.pages)),
             decoder.limits().pages * kernels::kPageTokens);
}

// By --name; else its job, with the step where several are of one job.
std::vector<Source> sources_of(const ServeModelArguments& arguments, const std::vector<TrainedModel>& trained) {
  if (!arguments.names.empty() && arguments.names.size() != trained.size()) {
    throw Failure{kBadInput, fmt::format("--name is given {} times and --from {} times: give a name to each, or to none",
                                         arguments.names.size(), trained.size())};
  }
  std::vector<Source> sources;
  for (size_t i = 0; i < trained.size(); ++i) {
    const storage::Manifest& manifest = trained[i].manifest;
    const auto is_of_it = [&](const TrainedModel& other) { return other.manifest.job == manifest.job; };
    Source source{arguments.model, manifest.job};
    source.from.from = arguments.from[i];
    if (!arguments.names.empty()) {
      source.name = arguments.names[i];
    } else if (std::ranges::count_if(trained, is_of_it) > 1) {
      source.name += fmt::format("@{}", manifest.step);
    }
    const auto has_its_name = [&](const Source& other) { return other.name == source.name; };
    if (std::ranges::any_of(sources, has_its_name))
      throw Failure{kBadInput, fmt::format("two models would be called {}: give each a --name of its own", source.name)};
    sources.push_back(std::move(source));
  }
  return sources;
}

std::vector<TrainedModel> find_models(const Options& options, const ServeModelArguments& arguments) {
  std::vector<TrainedModel> all;
  for (const std::string& from : arguments.from) {
    const auto step = arguments.follow ? find_checkpoints(options, from).step : std::nullopt;
    if (step) {
      throw Failure{kBadInput,
                    fmt::format("--follow serves the newest checkpoint, and --from {} names one: leave out @{}", from, *step)};
    }
    ModelArguments one = arguments.model;
    one.from = from;
    all.push_back(find_model(options, one));
  }
  return all;
}

constexpr std::chrono::milliseconds kFarewell{2000}, kFarewellLook{20};

void refuse_what_stages_lack(const ServeModelArguments& arguments) {
  if (arguments.stages.empty() || (!arguments.follow && arguments.from.size() == 1)) return;
  throw Failure{kBadInput, fmt::format("--stage holds layers of one checkpoint: leave out {}",
                                       arguments.follow ? "--follow" : "all but one --from")};
}

void serve_model(const Options& options, const ServeModelArguments& arguments) {
  refuse_what_stages_lack(arguments);
  hold_ending_signals();
  Ending ending;
  std::vector<TrainedModel> trained = find_models(options, arguments);
  const std::vector<Source> sources = sources_of(arguments, trained);
  const auto tokenizer = tokenizer_of(arguments.tokenizer, trained.front().manifest);
  for (const TrainedModel& other : trained) refuse_tokenizer_of_another(*tokenizer, other.manifest);
  const std::set<std::string> tokens = tokens_of(arguments.server);
  const rendezvous::HttpServerOptions http = http_options(arguments.server, tokens);
  const worker::ChosenDevice device = device_of(options, arguments.model);
  std::vector<std::unique_ptr<worker::ServedModels>> models;
  std::vector<const worker::ServedModels*> served;
  for (size_t i = 0; i < sources.size(); ++i) {
    models.push_back(std::make_unique<worker::ServedModels>(served_model(arguments, sources[i], trained[i], device, ending)));
    served.push_back(models.back().get());
  }
  const rendezvous::DeskSettings texts{.patience = std::chrono::seconds(arguments.timeout_s),
                                       .logs_requests = arguments.logs_requests};
  worker::CompletionsApi api(served, *tokenizer, {.texts = texts, .tokens = tokens});
  const auto server =
      rendezvous::HttpServer::start(http, [&api](const rendezvous::HttpRequest& head) { return api.gate(head); });
  if (!server) throw Failure{kBadInput, server.error()};
  std::vector<std::unique_ptr<Follower>> followers;
  for (size_t i = 0; i < sources.size(); ++i) {
    say_what_is_served(*models[i]->now(), arguments, (*server)->port());
    if (arguments.follow)
      followers.push_back(std::make_unique<Follower>(options, arguments, sources[i], device, *models[i], ending));
  }
  await_ending_signal();
  const std::lock_guard lock(ending.mutex);
  if (ending.why.empty()) return;
  // Callers that wait for texts are told that these are lost; an answer may have to begin yet.
  for (auto waited = kFarewellLook; waited < kFarewell; waited += kFarewellLook) {
    std::this_thread::sleep_for(kFarewellLook);
    if ((*server)->counts().streams == 0 && waited > kFarewell / 8) break;
  }
  throw Failure{kJobFailed, ending.why};
}

}  // namespace

void add_serve_model_command(CLI::App& app, Options& options) {
  const auto arguments = std::make_shared<ServeModelArguments>();
  CLI::App* command = add_command(app, options, "serve-model", "Serve a checkpoint's model in the form of OpenAI's API",
                                  "holdfast serve-model job:j1 --tokenizer data --listen 127.0.0.1:8000");
  command
      ->add_option("place,--from,--checkpoint", arguments->from,
                   "job:ID[@STEP], or a folder of checkpoints [PATH@STEP]; several are several models, with one tokenizer")
      ->required()
      ->type_name("PLACE");
  add_precision_arguments(*command, arguments->model);
  add_tokenizer_argument(*command, arguments->tokenizer);
  command->add_option("--name", arguments->names, "The model's name in requests, for each --from [the job's id]")
      ->type_name("NAME");
  add_server_arguments(*command, arguments->server, "127.0.0.1:8000");
  command
      ->add_option("--stage", arguments->stages,
                   "Address of a `serve-stage` with the model's first layers; several in the order of their layers")
      ->type_name("URL");
  command->add_option("--stage_token_file", arguments->stage_token_file, "File whose first line is the stages' token")
      ->check(CLI::ExistingFile)
      ->type_name("FILE");
  command->add_flag("--follow", arguments->follow,
                    "Answer with the newest checkpoint, whenever there is a newer one; texts under way keep theirs");
  add_batch_arguments(*command, arguments->cache_mib, arguments->batch_tokens);
  command->add_option("--queue", arguments->queue, "Texts that may wait; more are refused with 429")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 20))
      ->capture_default_str();
  command->add_option("--timeout_s", arguments->timeout_s, "The time in which a request's texts must be written")
      ->check(CLI::Range(int64_t{1}, int64_t{86400}))
      ->capture_default_str()
      ->type_name("SECONDS");
  command->add_flag("--log_prompts", arguments->logs_requests, "Log each request as it came, with its prompt");
  command->callback([&options, arguments] { serve_model(options, *arguments); });
}

}  // namespace holdfast::ops

// `holdfast serve-model`: a checkpoint's model behind OpenAI's API, in this process.
#include <fmt/format.h>

#include <chrono>
#include <condition_variable>
#include <csignal>
#include <fstream>
#include <mutex>
#include <set>
#include <thread>

#include "ops/cli/command/command.h"
#include "ops/cli/terminal/format.h"
#include "ops/cli/trained_model.h"
#include "rendezvous/http/listen_address.h"
#include "rendezvous/http/server.h"
#include "rendezvous/text/sha256.h"
#include "worker/serving/completions_api.h"

namespace holdfast::ops {
namespace {

struct ServeModelArguments {
  ModelArguments model;
  std::string tokenizer, name, token_file, listen = "127.0.0.1:8000", tls_cert, tls_key;
  bool allow_insecure = false, follow = false;
  int64_t cache_mib = 1024, batch_tokens = 256, queue = 256, timeout_s = 600;
};

// SHA-256 of each line that is not empty.
std::set<std::string> tokens_in(const std::string& path) {
  std::set<std::string> tokens;
  if (path.empty()) return tokens;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    while (!line.empty() && (line.back() == '\r' || line.back() == ' ')) line.pop_back();
    if (!line.empty()) tokens.insert(rendezvous::sha256_hex(std::as_bytes(std::span(line))));
  }
  if (tokens.empty()) throw Failure{kBadInput, fmt::format("--token_file {}: no token is in it: expected one a line", path)};
  return tokens;
}

// Job's id or the folder's name, as people call it.
std::string name_of(const ServeModelArguments& arguments, const storage::Manifest& manifest) {
  return arguments.name.empty() ? manifest.job : arguments.name;
}

worker::ServedModel served_model(const ServeModelArguments& arguments, TrainedModel& trained) {
  const auto memory = std::make_shared<const ModelInMemory>(
      load_model_for_many(trained, arguments.model, arguments.cache_mib, arguments.batch_tokens));
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return {.name = name_of(arguments, trained.manifest),
          .fingerprint = fingerprint_of(trained, arguments.model, *memory->ops),
          .config = trained.config,
          .created_s = std::chrono::duration_cast<std::chrono::seconds>(now).count(),
          .step = trained.manifest.step,
          .memory = memory,
          .texts = std::make_unique<worker::TextServer>(*memory->decoder, arguments.queue)};
}

// Puts each newer checkpoint of a place in the place of the one that is served. What goes wrong is said, and tried again.
class Follower {
 public:
  Follower(const Options& options, const ServeModelArguments& arguments, worker::ServedModels& models)
      : options_(options), arguments_(arguments), models_(models) {}

 private:
  void run(const std::stop_token& stop) {
    std::string last_failure;
    while (!stop.stop_requested()) {
      std::unique_lock lock(mutex_);
      if (stopped_.wait_for(lock, stop, kLookEvery, [] { return false; }); stop.stop_requested()) return;
      lock.unlock();
      models_.forget_finished();
      std::string failure;
      try {
        look();
      } catch (const Failure& failed) {
        failure = failed.message;
      } catch (const std::exception& failed) {
        failure = failed.what();
      }
      if (!failure.empty() && failure != last_failure)
        fmt::print(stderr, "No newer checkpoint is served, and it is tried again: {}\n", failure);
      last_failure = failure;
    }
  }
  void look() {
    CheckpointPlace place = find_checkpoints(options_, arguments_.model.from);
    if (steps_of(place).back() == models_.now()->step) return;
    TrainedModel trained = find_model(options_, arguments_.model);
    models_.replace(served_model(arguments_, trained));
    fmt::print(stderr, "Serving step {} from now on.\n", trained.manifest.step);
  }

  static constexpr auto kLookEvery = std::chrono::seconds(2);
  const Options& options_;
  const ServeModelArguments& arguments_;
  worker::ServedModels& models_;
  std::mutex mutex_;
  std::condition_variable_any stopped_;
  std::jthread thread_{[this](const std::stop_token& stop) { run(stop); }};  // last: it uses all of these
};

void say_what_is_served(const worker::ServedModel& served, const ServeModelArguments& arguments, int port) {
  const auto& decoder = *std::static_pointer_cast<const ModelInMemory>(served.memory)->decoder;
  const auto memory = decoder.memory_use();
  fmt::print(stderr, "Serving {} (step {}, {}) at {}://{}/v1: {} of weights, {} for {} tokens of texts.\n", served.name,
             served.step, arguments.model.precision, arguments.tls_cert.empty() ? "http" : "https",
             arguments.listen.substr(0, arguments.listen.rfind(':') + 1) + std::to_string(port),
             bytes_text(static_cast<double>(memory.weights)), bytes_text(static_cast<double>(memory.pages)),
             decoder.limits().pages * kernels::kPageTokens);
}

void refuse_a_step(const Options& options, const ServeModelArguments& arguments) {
  if (const auto step = find_checkpoints(options, arguments.model.from).step) {
    throw Failure{kBadInput, fmt::format("--follow serves the newest checkpoint, and --from {} names one: leave out @{}",
                                         arguments.model.from, *step)};
  }
}

void serve_model(const Options& options, const ServeModelArguments& arguments) {
  sigset_t ending;  // before there are threads, which inherit that these are not delivered
  sigemptyset(&ending);
  sigaddset(&ending, SIGINT);
  sigaddset(&ending, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &ending, nullptr);
  if (arguments.follow) refuse_a_step(options, arguments);
  TrainedModel trained = find_model(options, arguments.model);
  const auto tokenizer = tokenizer_of(arguments.tokenizer, trained.manifest);
  const std::set<std::string> tokens = tokens_in(arguments.token_file);
  const auto loopback = rendezvous::listens_on_loopback(arguments.listen);
  if (!loopback) throw Failure{kBadInput, loopback.error()};
  if (!*loopback && !arguments.allow_insecure && (tokens.empty() || arguments.tls_cert.empty())) {
    throw Failure{
        kBadInput,
        fmt::format("--listen {}: other machines could read along and ask for texts: give --token_file, --tls_cert and "
                    "--tls_key, or --allow_insecure on a network that is trusted",
                    arguments.listen)};
  }
  worker::ServedModels models(served_model(arguments, trained));
  worker::CompletionsApi api(models, *tokenizer, {.patience = std::chrono::seconds(arguments.timeout_s), .tokens = tokens});
  rendezvous::HttpServerOptions http;
  http.listen = arguments.listen;
  http.tls = {arguments.tls_cert, arguments.tls_key};
  const auto server =
      rendezvous::HttpServer::start(http, [&api](const rendezvous::HttpRequest& head) { return api.gate(head); });
  if (!server) throw Failure{kBadInput, server.error()};
  say_what_is_served(*models.now(), arguments, (*server)->port());
  std::optional<Follower> follower;
  if (arguments.follow) follower.emplace(options, arguments, models);
  int signal = 0;
  sigwait(&ending, &signal);
}

}  // namespace

void add_serve_model_command(CLI::App& app, Options& options) {
  const auto arguments = std::make_shared<ServeModelArguments>();
  CLI::App* command = add_command(app, options, "serve-model", "Serve a checkpoint's model in the form of OpenAI's API",
                                  "holdfast serve-model --from job:j1 --tokenizer data --listen 127.0.0.1:8000");
  add_model_arguments(*command, arguments->model);
  add_tokenizer_argument(*command, arguments->tokenizer);
  command->add_option("--name", arguments->name, "The model's name in requests [the job's id]")->type_name("NAME");
  command->add_option("--listen", arguments->listen, "Address to listen on")->capture_default_str()->type_name("HOST:PORT");
  command->add_option("--token_file", arguments->token_file, "File with the tokens that may ask, one a line [everybody may]")
      ->check(CLI::ExistingFile)
      ->type_name("FILE");
  command->add_option("--tls_cert", arguments->tls_cert, "Certificate (a chain in PEM): serve https")->type_name("FILE");
  command->add_option("--tls_key", arguments->tls_key, "The certificate's key (PEM)")->type_name("FILE");
  command->add_flag("--allow_insecure", arguments->allow_insecure,
                    "Listen beyond this machine without tokens or TLS, on a network that is trusted");
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
  command->callback([&options, arguments] { serve_model(options, *arguments); });
}

}  // namespace holdfast::ops

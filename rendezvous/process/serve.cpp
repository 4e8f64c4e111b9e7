// Start and end of the process: the data directory and its lock, tokens, database, HTTP, signals.
#include "rendezvous/process/serve.h"

#include <fmt/format.h>
#include <signal.h>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>
#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <optional>
#include <span>
#include <system_error>

#include "rendezvous/client/servers.h"
#include "rendezvous/data_dir/bearer_token.h"
#include "rendezvous/data_dir/directory_lock.h"
#include "rendezvous/http/listen_address.h"
#include "rendezvous/http/server.h"
#include "rendezvous/process/open_files.h"
#include "rendezvous/process/service_database.h"
#include "rendezvous/process/service_lives.h"
#include "rendezvous/store/commit_faults.h"
#include "rendezvous/text/random_hex.h"
#include "rendezvous/text/sha256.h"

namespace holdfast::rendezvous {
namespace {

using Failure = tl::unexpected<std::string>;

class SystemClock : public Clock {
 public:
  int64_t steady_ms() const override { return since_epoch(std::chrono::steady_clock::now()); }
  int64_t wall_ms() const override { return since_epoch(std::chrono::system_clock::now()); }

 private:
  template <typename TimePoint>
  static int64_t since_epoch(TimePoint time) {
    return std::chrono::duration_cast<std::chrono::milliseconds>(time.time_since_epoch()).count();
  }
};

struct Tokens {
  std::string admin, worker;
};

tl::expected<Tokens, std::string> prepare_directory(const std::string& data_dir, DirectoryLock& lock) {
  std::error_code error;
  const bool existed = std::filesystem::exists(data_dir, error);
  std::filesystem::create_directories(data_dir, error);
  if (error) return Failure(fmt::format("cannot make the data directory {}: {}", data_dir, error.message()));
  if (!existed) chmod(data_dir.c_str(), 0700);
  if (auto taken = lock.take(data_dir, "stop it, or give this one another --data_dir"); !taken) return Failure(taken.error());
  auto admin = load_or_make_token(data_dir + "/admin.token");
  if (!admin) return Failure(admin.error());
  auto worker = load_or_make_token(data_dir + "/worker.token");
  if (!worker) return Failure(worker.error());
  return Tokens{*admin, *worker};
}

std::string digest_of(const Tokens& tokens) {
  const std::string both = tokens.admin + "\n" + tokens.worker;
  return sha256_hex(std::as_bytes(std::span(both)));
}

void greet(const std::string& url, const std::string& data_dir) {
  std::cout << fmt::format("holdfast {} serves at {}\n", kHoldfastVersion, url)
            << fmt::format("tokens: {0}/admin.token (command line), {0}/worker.token (workers)\n", data_dir)
            << fmt::format("next:   HOLDFAST_TOKEN=$(cat {}/worker.token) holdfast-worker --server {}\n", data_dir, url)
            << std::flush;
}

// Blocks until a signal ends the process, or the service fails for a reason other than its database. Returns the exit status.
int tend_until_the_end(const sigset_t& signals, bool ignore_sigterm, ServiceLives& lives) {
  while (lives.tend()) {
    const timespec patience{0, 200'000'000};
    const int signal = sigtimedwait(&signals, nullptr, &patience);
    if (signal <= 0) continue;
    if (signal == SIGTERM && ignore_sigterm) {
      spdlog::info("SIGTERM received: it is passed over (--ignore_sigterm), SIGINT ends this service");
      continue;
    }
    spdlog::info("{} received: stopping", signal == SIGINT ? "SIGINT" : "SIGTERM");
    return 0;
  }
  return 1;
}

// The database; with a drill asked for (HOLDFAST_FAULT), wrapped so that the process dies at the commit that the drill names.
class DrilledStore {
 public:
  DrilledStore(std::unique_ptr<JobStore> store, std::vector<CommitFault> faults) : store_(std::move(store)) {
    if (!faults.empty()) drill_ = std::make_unique<WatchedStore>(*store_, die_at(std::move(faults)));
  }
  JobStore& get() const { return drill_ ? *drill_ : *store_; }

 private:
  std::unique_ptr<JobStore> store_;
  std::unique_ptr<WatchedStore> drill_;
};

tl::expected<std::vector<CommitFault>, std::string> asked_for_drills() {
  const char* drill = std::getenv("HOLDFAST_FAULT");  // NOLINT(concurrency-mt-unsafe): before any thread
  if (drill == nullptr || *drill == '\0') return std::vector<CommitFault>{};
  return parse_commit_faults(drill);
}

// A database and the service over it.
struct Life {
  std::shared_ptr<void> leadership;
  DrilledStore store;
  Service service;
};

// It can wait: the next service to lead would look for what the database lacks once more.
void tell_made_good(const OpenDatabase& opened) {
  if (!opened.made_good) return;
  try {
    opened.made_good();
  } catch (const StoreError& error) {
    spdlog::warn("the database was not told that this service knows what it lacks after a failover: {}", error.what());
  }
}

// The URL that a service with these options has, before it is known whether anybody else can reach it there.
std::string url_of(const ServeOptions& options, int port) {
  if (!options.advertise.empty()) return normalized_server(options.advertise);
  std::string host = options.listen.substr(0, options.listen.rfind(':'));
  if (host.empty() || host == "0.0.0.0" || host == "*" || host == "[::]") host = "127.0.0.1";
  return fmt::format("{}://{}:{}", options.tls_cert.empty() ? "http" : "https", host, port);
}

// Services without a folder that all of them see pull checkpoints from the one that leads.
bool has_own_folder(const ServeOptions& options) {
  return !options.store.empty() && options.shared_dir.empty();
}

// Says where what only this machine has would be missed.
void warn_of_own_folder(const ServeOptions& options) {
  if (!has_own_folder(options)) return;
  spdlog::warn(
      "checkpoints and data sets that are left to the service lie in {}, on this machine: services that stand by pull them, "
      "and "
      "lack the newest for as long as that takes. Give all services --shared_dir DIR, a folder that all see, or jobs a "
      "--checkpoint_store",
      options.data_dir);
}

StandbyOptions standby_options(const ServeOptions& options, const Tokens& tokens, const std::string& service_id) {
  StandbyOptions standby;
  standby.reads.service_id = service_id;
  standby.reads.admin_token = tokens.admin;
  standby.reads.worker_token = tokens.worker;
  standby.reads.requests_per_s = options.requests_per_s;
  if (has_own_folder(options)) {
    standby.pull =
        PullOptions{.data_dir = options.data_dir, .token = tokens.admin, .bytes_per_s = options.pull_mib_per_s * (1 << 20)};
  }
  return standby;
}

// Raises the limit on open files, and warns if it is still too low for a few hundred workers.
void prepare_open_files() {
  constexpr int64_t kWorkers = 300;
  const OpenFiles files = raise_open_files();
  if (files.limit >= open_files_for(kWorkers)) return;
  spdlog::warn(
      "this process may have {} files open, enough for some {} workers{}{}; if more are to come, raise the hard limit (ulimit "
      "-Hn, LimitNOFILE= of a systemd unit): {} workers need {}",
      files.limit, std::max<int64_t>(0, files.limit - kOpenFilesBeside) / kConnectionsPerWorker,
      files.problem.empty() ? "" : ": ", files.problem, kWorkers, open_files_for(kWorkers));
}

// Refuses to listen for other machines without encryption, unless the user allows it.
tl::expected<void, std::string> check_encryption(const ServeOptions& options) {
  if (options.tls_cert.empty() != options.tls_key.empty()) {
    return Failure(fmt::format("--tls_{} is missing: a certificate and its key are given together",
                               options.tls_cert.empty() ? "cert" : "key"));
  }
  if (!options.tls_cert.empty() || options.allow_insecure) return {};
  const auto loopback = listens_on_loopback(options.listen);
  if (!loopback) return Failure(loopback.error());
  if (*loopback) return {};
  return Failure(fmt::format(
      "--listen {} would be reached by other machines, and without encryption: whoever is on the way could read the "
      "tokens. Give a certificate (--tls_cert FILE --tls_key FILE), or say --allow_insecure where the network is trusted",
      options.listen));
}

tl::expected<int, std::string> run(const ServeOptions& options, const sigset_t& signals) {
  if (const auto checked = check_encryption(options); !checked) return Failure(checked.error());
  DirectoryLock lock;
  const auto tokens = prepare_directory(options.data_dir, lock);
  if (!tokens) return Failure(tokens.error());
  const SystemClock clock;
  const auto drills = asked_for_drills();
  if (!drills) return Failure(drills.error());
  std::atomic<const HttpServer*> serving = nullptr;
  const auto http_counts = [&serving] {
    const HttpServer* running = serving;
    return running == nullptr ? HttpServerCounts{} : running->counts();
  };
  std::optional<ServiceLives> lives;
  std::atomic<ServiceLives*> begun = nullptr;
  HttpServerOptions http;
  http.listen = options.listen;
  http.tls = {options.tls_cert, options.tls_key};
  auto server = HttpServer::start(http, [&begun](const HttpRequest& head) {
    ServiceLives* present = begun;
    return present == nullptr ? ServiceLives::not_begun() : present->gate(head);
  });
  if (!server) return Failure(server.error());
  serving = server->get();
  const std::string url = url_of(options, (*server)->port()), service_id = random_hex(8);
  const auto requests = std::make_shared<RequestCounts>();
  const auto database =
      choose_database({options.store, options.data_dir, options.retention, service_id, url, digest_of(*tokens), requests});
  warn_of_own_folder(options);
  std::weak_ptr<Standby> standing_by;
  const auto begin = [&] {
    OpenDatabase opened = database->open();
    if (const auto standby = standing_by.lock()) standby->end_pull();
    ServiceOptions of_life;
    of_life.data_dir = options.shared_dir.empty() ? options.data_dir : options.shared_dir;
    of_life.service_id = service_id;
    of_life.admin_token = tokens->admin;
    of_life.worker_token = tokens->worker;
    of_life.http_counts = http_counts;
    of_life.checkpoint_roots = options.checkpoint_roots;
    of_life.requests_per_s = options.requests_per_s;
    of_life.data_limit_bytes = options.data_limit_bytes;
    of_life.scale_hook = options.scale_hook;
    of_life.texts = options.texts;
    of_life.in_plain = options.tls_cert.empty() && !listens_on_loopback(options.listen).value_or(false);
    of_life.term = opened.term;
    of_life.may_lack_some = opened.may_lack_some;
    of_life.address = url;
    of_life.database_seen = opened.seen;
    of_life.has_own_folder = has_own_folder(options);
    DrilledStore store(std::move(opened.store), *drills);
    JobStore& jobs = store.get();
    const auto life = std::shared_ptr<Life>(
        new Life{std::move(opened.leadership), std::move(store), Service(of_life, clock, jobs, [] { return random_hex(32); })});
    tell_made_good(opened);
    return std::shared_ptr<Service>(life, &life->service);
  };
  lives.emplace(requests, begin, [&] {
    const auto standby = std::make_shared<Standby>(standby_options(options, *tokens, service_id), clock,
                                                   [&database] { return database->open_reading(); });
    standing_by = standby;
    return standby;
  });
  begun = &*lives;
  greet(url, options.data_dir);
  const int status = tend_until_the_end(signals, options.ignore_sigterm, *lives);
  lives->end();
  server->reset();
  return status;
}

}  // namespace

int serve(const ServeOptions& options) {
  umask(0077);  // the database holds the generations' secrets
  spdlog::set_default_logger(spdlog::stderr_color_mt("serve"));
  spdlog::set_level(spdlog::level::from_str(options.log_level));
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);  // before any thread, so that all inherit it
  signal(SIGPIPE, SIG_IGN);
  prepare_open_files();
  std::string failure;
  try {
    auto code = run(options, signals);
    if (code) return *code;
    failure = code.error();
  } catch (const std::exception& error) {
    failure = error.what();
  }
  std::cerr << "holdfast serve: " << failure << "\n";
  return 2;
}

}  // namespace holdfast::rendezvous

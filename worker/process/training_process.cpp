#include "worker/process/training_process.h"

#include <signal.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <chrono>
#include <ctime>
#include <stdexcept>
#include <tl/expected.hpp>

#include "worker/data_sets/data_sets.h"
#include "worker/drills/drills.h"
#include "worker/link/log_shipping.h"
#include "worker/link/outbox.h"
#include "worker/link/rendezvous_client.h"
#include "worker/load/load_reader.h"
#include "worker/peer_server/peer_server.h"
#include "worker/process/device_watch.h"
#include "worker/process/job_runner.h"
#include "worker/process/life_report.h"

namespace holdfast::worker {
namespace {

using std::chrono::steady_clock;

// A worker that holds no job waits this long for the service to grant its leave.
constexpr std::chrono::seconds kGrace{5};

// This process cannot repair what it has seen, and its threads may be anywhere, so it exits at once. Nothing is lost:
// checkpoints are either durable or absent, and the other members have the state in their memory.
[[noreturn]] void end_process(ExitCode code, const std::string& reason) {
  spdlog::error("{}", reason);
  spdlog::default_logger()->flush();
  if (code == ExitCode::kFailed) tell_reason(reason);
  _exit(static_cast<int>(code));
}

// All outlive the process that is made from them.
struct Surroundings {
  const WorkerOptions& options;
  const Identity& identity;
  const kernels::OpsFactory& make_ops;
  const kernels::DeviceInfo& device;  // the one that `make_ops` makes
  Transport& transport;
  std::shared_ptr<LogShipping> sink;
  const Drills* drills;  // null: none
};

rendezvous::RegisterRequest registration(const Surroundings& around) {
  rendezvous::RegisterRequest request;
  request.name = around.identity.name;
  request.incarnation = around.identity.incarnation;
  request.node = around.identity.node;
  request.pid = getpid();
  request.address = around.transport.address();
  request.device = around.device.kind;
  request.device_model = around.device.model;
  request.numerics = around.device.numerics;
  request.memory_bytes = around.device.memory_bytes;
  request.memory_limit_bytes = static_cast<int64_t>(memory_limit(around.options.memory_gib).bytes);
  request.threads = around.device.threads;
  request.labels = around.options.labels;
  request.only_job = around.options.only_job;
  return request;
}

std::function<bool()> is_cut_by(const Drills* drills) {
  if (drills == nullptr) return nullptr;
  return [drills] { return drills->is_cut(); };
}

std::string data_cache_folder(const WorkerOptions& options) {
  if (!options.data_cache.empty()) return options.data_cache;
  return options.data_root.empty() ? default_cache_folder() : options.data_root + "/.holdfast/data-sets";
}

// Chunks are given at the address of the ring, at another port.
DataSetOptions data_set_options(const Surroundings& around) {
  return {.cache_folder = data_cache_folder(around.options),
          .cache_bytes = static_cast<int64_t>(around.options.data_cache_gib * (1 << 30)),
          .host = host_of(around.transport.address()),
          .ports = around.options.ring_ports};
}

// A wrong choice of a device stays wrong after a restart; a device that failed may work again.
tl::expected<kernels::DeviceInfo, std::string> device_of(const kernels::OpsFactory& make_ops) {
  try {
    return make_ops(kernels::DType::kFloat32)->info();
  } catch (const kernels::DeviceFailure&) {
    throw;
  } catch (const std::runtime_error& error) {
    return tl::unexpected<std::string>(error.what());
  }
}

// Ships log lines for as long as there is an outbox.
class Shipping {
 public:
  Shipping(std::shared_ptr<LogShipping> sink, Outbox& outbox) : sink_(std::move(sink)) { sink_->connect(&outbox); }
  ~Shipping() { sink_->connect(nullptr); }
  Shipping(const Shipping&) = delete;
  Shipping& operator=(const Shipping&) = delete;
  void set_job(const std::string& job) { sink_->set_job(job); }

 private:
  std::shared_ptr<LogShipping> sink_;
};

class TrainingProcess {
 public:
  explicit TrainingProcess(Surroundings around)
      : incarnation_(around.identity.incarnation),
        link_({.server = around.options.server,
               .token = around.options.token,
               .worker = around.identity.name,
               .incarnation = around.identity.incarnation,
               .is_cut = is_cut_by(around.drills)},
              end_process),
        outbox_(link_),
        shipping_(std::move(around.sink), outbox_),
        data_sets_(link_, outbox_, data_set_options(around)),
        runner_({.data_root = around.options.data_root,
                 .checkpoint_roots = around.options.checkpoint_roots,
                 .make_ops = around.make_ops,
                 .memory = memory_limit(around.options.memory_gib),
                 .collective_timeout = around.options.collective_timeout,
                 .tensorboard_dir = around.options.tensorboard_dir,
                 .shared_memory = around.options.shared_memory,
                 .ports = around.options.ring_ports},
                {.link = link_, .outbox = outbox_, .transport = around.transport, .data_sets = data_sets_},
                [this](const Input& input) { feed(input); }),
        load_(make_load_reader(around.device.pci_address, around.options.threads)),
        watch_(around.device, outbox_),
        client_(
            link_, registration(around), [this](const rendezvous::Directive& directive) { feed(DirectiveReceived{directive}); },
            [this] { return look_at_device(); }) {
    const std::lock_guard lock(mutex_);
    ready_ = true;
    client_.publish(status_of(state_, incarnation_));
    changed_.notify_all();
  }

  void feed(const Input& input) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return ready_; });
    for (const Command& command : advance(state_, input)) {
      std::visit([this](const auto& what) { carry_out(what); }, command);
    }
    if (state_.activity != Lifecycle::Activity::kNone) grace_.reset();
    if (state_.leaving && state_.activity == Lifecycle::Activity::kNone && !grace_) grace_ = steady_clock::now() + kGrace;
    shipping_.set_job(state_.job);
    client_.publish(status_of(state_, incarnation_));
    changed_.notify_all();
  }

  // Until the lifecycle says exit; takes signals meanwhile.
  void wait_for_exit(const sigset_t& signals) {
    const timespec tick{0, 50'000'000};
    while (!exiting()) {
      const int signal = sigtimedwait(&signals, nullptr, &tick);
      if (signal > 0 && !leaving()) {
        spdlog::info("{} received: leaving after the step under way", signal == SIGTERM ? "SIGTERM" : "SIGINT");
        feed(TerminationAsked{});
      }
      if (grace_over()) feed(GraceOver{});
    }
  }

 private:
  void carry_out(const StartPrepare& command) { runner_.start(command); }
  void carry_out(const StartRun& command) { runner_.start(command); }
  void carry_out(const StartRelease& command) { runner_.start(command); }
  void carry_out(const RecordProfile& command) { runner_.ask(command); }
  void carry_out(const AskYield& command) { runner_.ask(command); }
  void carry_out(const InterruptTrain& command) { runner_.interrupt(command.reason); }
  void carry_out(const ExitProcess& command) { spdlog::info("ends: {}", command.reason); }

  // On the thread that the client has for it.
  rendezvous::DeviceLoad look_at_device() {
    watch_.look(job());
    return load_->read();
  }

  std::string job() {
    const std::lock_guard lock(mutex_);
    return state_.job;
  }
  bool exiting() {
    const std::lock_guard lock(mutex_);
    return state_.exiting;
  }
  bool leaving() {
    const std::lock_guard lock(mutex_);
    return state_.leaving;
  }
  bool grace_over() {
    const std::lock_guard lock(mutex_);
    return grace_ && steady_clock::now() > *grace_;
  }

  std::string incarnation_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool ready_ = false;  // every part is constructed; inputs wait for it
  Lifecycle state_;
  std::optional<steady_clock::time_point> grace_;
  ServiceLink link_;
  Outbox outbox_;
  Shipping shipping_;
  DataSets data_sets_;
  JobRunner runner_;
  std::unique_ptr<LoadReader> load_;  // the client's thread reads it
  DeviceWatch watch_;                 // and looks
  RendezvousClient client_;
};

}  // namespace

ExitCode run_training_process(const WorkerOptions& options, const Identity& identity, const kernels::OpsFactory& make_ops) {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  signal(SIGPIPE, SIG_IGN);
  const auto sink = std::make_shared<LogShipping>();
  spdlog::default_logger()->sinks().push_back(sink);
  std::optional<Drills> drills;  // before the transport that looks at them
  auto transport = make_tcp_transport(options.interface, options.server_host, options.ring_ports);
  if (!transport) {
    spdlog::error("{}", transport.error().detail);
    return ExitCode::kConfiguration;
  }
  if (!options.drills.empty()) {
    drills.emplace(options.drills, identity.name);
    if (const auto consented = drills->consent(); !consented) {
      spdlog::error("{}", consented.error());
      return ExitCode::kConfiguration;
    }
    spdlog::warn("drills: this worker obeys the files {}.* in {}", identity.name, options.drills);
    *transport = make_drill_transport(std::move(*transport), *drills);
  }
  const auto device = device_of(make_ops);
  if (!device) {
    spdlog::error("{}", device.error());
    return ExitCode::kConfiguration;
  }
  TrainingProcess process({.options = options,
                           .identity = identity,
                           .make_ops = make_ops,
                           .device = *device,
                           .transport = **transport,
                           .sink = sink,
                           .drills = drills ? &*drills : nullptr});
  process.wait_for_exit(signals);
  return ExitCode::kDone;
}

}  // namespace holdfast::worker

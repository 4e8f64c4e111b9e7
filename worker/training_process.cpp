#include "worker/training_process.h"

#include <signal.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <chrono>
#include <ctime>
#include <stdexcept>
#include <tl/expected.hpp>

#include "worker/drills.h"
#include "worker/job_runner.h"
#include "worker/life_report.h"
#include "worker/log_shipping.h"
#include "worker/outbox.h"
#include "worker/rendezvous_client.h"

namespace holdfast::worker {
namespace {

using std::chrono::steady_clock;

// A worker that nobody needs any more waits so long for the service to grant its leave.
constexpr std::chrono::seconds kGrace{5};

// What was seen cannot be made good by this process, and threads may be anywhere: out, now. Nothing is lost by it, because
// checkpoints are durable or absent, and states are in the other members' memory.
[[noreturn]] void end_process(ExitCode code, const std::string& reason) {
  spdlog::error("{}", reason);
  spdlog::default_logger()->flush();
  if (code == ExitCode::kFailed) tell_reason(reason);
  _exit(static_cast<int>(code));
}

rendezvous::RegisterRequest registration(const WorkerOptions& options, const Identity& identity, const Transport& transport,
                                         const kernels::DeviceInfo& device) {
  rendezvous::RegisterRequest request;
  request.name = identity.name;
  request.incarnation = identity.incarnation;
  request.node = identity.node;
  request.pid = getpid();
  request.address = transport.address();
  request.device = device.kind;
  request.device_model = device.model;
  request.numerics = device.numerics;
  request.memory_bytes = device.memory_bytes;
  request.threads = device.threads;
  request.labels = options.labels;
  return request;
}

// What is wrong with the choice of a device does not mend itself by starting again; a device that fails may.
tl::expected<kernels::DeviceInfo, std::string> device_of(const OpsFactory& make_ops) {
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
  // `device` is what `make_ops` makes; `drills` is null where there are none.
  TrainingProcess(const WorkerOptions& options, const Identity& identity, const OpsFactory& make_ops,
                  const kernels::DeviceInfo& device, Transport& transport, std::shared_ptr<LogShipping> sink,
                  const Drills* drills)
      : incarnation_(identity.incarnation),
        link_({.server = options.server,
               .token = options.token,
               .worker = identity.name,
               .incarnation = identity.incarnation,
               .is_cut = drills == nullptr ? std::function<bool()>() : [drills] { return drills->is_cut(); }},
              end_process),
        outbox_(link_),
        shipping_(std::move(sink), outbox_),
        runner_({options.data_root, options.checkpoint_roots, make_ops, options.collective_timeout, options.tensorboard_dir},
                link_, outbox_, transport, [this](const Input& input) { feed(input); }),
        client_(link_, registration(options, identity, transport, device),
                [this](const rendezvous::Directive& directive) { feed(DirectiveReceived{directive}); }) {
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
  void carry_out(const AskYield& command) { runner_.ask(command); }
  void carry_out(const InterruptTrain& command) { runner_.interrupt(command.reason); }
  void carry_out(const ExitProcess& command) { spdlog::info("ends: {}", command.reason); }

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
  bool ready_ = false;  // every part is there; inputs wait for it
  Lifecycle state_;
  std::optional<steady_clock::time_point> grace_;
  ServiceLink link_;
  Outbox outbox_;
  Shipping shipping_;
  JobRunner runner_;
  RendezvousClient client_;
};

}  // namespace

ExitCode run_training_process(const WorkerOptions& options, const Identity& identity, const OpsFactory& make_ops) {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  signal(SIGPIPE, SIG_IGN);
  const auto sink = std::make_shared<LogShipping>();
  spdlog::default_logger()->sinks().push_back(sink);
  std::optional<Drills> drills;  // before the transport that looks at them
  auto transport = make_tcp_transport(options.interface, options.server_host);
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
  TrainingProcess process(options, identity, make_ops, *device, **transport, sink, drills ? &*drills : nullptr);
  process.wait_for_exit(signals);
  return ExitCode::kDone;
}

}  // namespace holdfast::worker

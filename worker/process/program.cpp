#include "worker/process/program.h"

#include <fmt/format.h>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "rendezvous/client/http_client.h"
#include "rendezvous/client/servers.h"
#include "rendezvous/client/socket_address.h"
#include "worker/drills/drills.h"
#include "worker/drills/fault_points.h"
#include "worker/process/fleet.h"
#include "worker/process/life_report.h"
#include "worker/process/stderr_tail.h"
#include "worker/process/supervisor.h"
#include "worker/process/training_process.h"
#include "worker/session/measure.h"
#include "worker/session/memory_limit.h"

namespace holdfast::worker {
namespace {

void set_up_logging(const std::string& level, const std::string& who) {
  const bool terminal = std::getenv(kTerminalVariable) != nullptr;  // NOLINT(concurrency-mt-unsafe)
  auto logger =
      std::make_shared<spdlog::logger>(who, std::make_shared<spdlog::sinks::stderr_color_sink_mt>(
                                                terminal ? spdlog::color_mode::always : spdlog::color_mode::automatic));
  logger->set_pattern("%Y-%m-%d %H:%M:%S.%e %^%l%$ [%n %P] %v");
  logger->set_level(spdlog::level::from_str(level));
  logger->flush_on(spdlog::level::info);
  spdlog::set_default_logger(std::move(logger));
}

// The servers with the highest term that earlier lives of this worker have heard of: an answer of an earlier one comes from a
// service that was deposed. To be kept for as long as it is to be remembered.
std::shared_ptr<rendezvous::Servers> servers_of(const WorkerOptions& options) {
  auto servers = rendezvous::Servers::of(options.server);
  if (const char* term = std::getenv(kTermVariable))  // NOLINT(concurrency-mt-unsafe): nobody sets any
    servers->note_term(std::strtoll(term, nullptr, 10));
  servers->on_higher_term(tell_term);
  return servers;
}

// Tells the service that a life ended, so that it need not wait for the end of the lease. Two tries; after them the lease has
// to do.
void report_lost(const WorkerOptions& options, const rendezvous::WorkerLost& lost) {
  const auto servers = servers_of(options);
  rendezvous::HttpClient client(options.server, options.token);
  const std::string body = rendezvous::json_text(lost);
  for (int tries = 0; tries < 2; ++tries) {
    if (client.request("POST", "/v1/workers/lost", body, "application/json", std::chrono::seconds(2))) return;
  }
}

int run_supervisor(const WorkerOptions& options, int argc, char** argv) {
  set_up_logging(options.log_level, "supervisor");
  SupervisorOptions supervisor;
  supervisor.command.assign(argv, argv + argc);
  supervisor.command[0] = "/proc/self/exe";
  supervisor.report_lost = [&options](const std::string& incarnation, const std::string& reason,
                                      const std::vector<std::string>& last_lines) {
    report_lost(options, {incarnation, reason, last_lines});
  };
  return supervise(supervisor);
}

int train(const WorkerOptions& options, const DeviceChoice& devices, const char* incarnation) {
  Identity identity;
  identity.incarnation = incarnation;
  identity.node = rendezvous::host_name("worker");
  const char* supervisor = std::getenv(kSupervisorVariable);  // NOLINT(concurrency-mt-unsafe)
  identity.name =
      !options.name.empty() ? options.name : fmt::format("{}-{}", identity.node, supervisor == nullptr ? "0" : supervisor);
  set_up_logging(options.log_level, identity.name);
  std::vector<FaultRule> rules;
  if (!options.fault_rules.empty()) rules = *parse_fault_rules(options.fault_rules);
  if (!options.drills.empty()) rules.push_back(Drills(options.drills, identity.name).slow_rule());
  arm_fault_points(std::move(rules));
  // If an earlier life had a GPU, each new life asks for it until it is back: on the CPU this would be a different worker.
  WorkerOptions wanted = options;
  wanted.name = identity.name;
  const char* const had = std::getenv(kGpuVariable);  // NOLINT(concurrency-mt-unsafe)
  if (had != nullptr) wanted.device = had;
  const auto chosen = devices(wanted);
  if (!chosen) {
    spdlog::error("{}", chosen.error());
    if (had == nullptr) return static_cast<int>(ExitCode::kConfiguration);
    tell_reason(chosen.error());
    return static_cast<int>(ExitCode::kFailed);
  }
  if (!chosen->gpu.empty()) tell_gpu(chosen->gpu);
  const auto servers = servers_of(options);
  return static_cast<int>(run_training_process(options, identity, chosen->make_ops));
}

int measure(const WorkerOptions& options, const DeviceChoice& devices) {
  const auto chosen = devices(options);
  const auto said = chosen ? measure_device(options.measure, chosen->make_ops) : tl::unexpected(chosen.error());
  (said ? std::cout : std::cerr) << (said ? *said : said.error()) << "\n";
  return said ? 0 : static_cast<int>(ExitCode::kConfiguration);
}

int run_workers(const WorkerOptions& options, int argc, char** argv, const GpuCount& gpu_count) {
  const std::string name =
      !options.name.empty() ? options.name : fmt::format("{}-{}", rendezvous::host_name("worker"), getpid());
  set_up_logging(options.log_level, name);
  const auto devices = device_names(options.devices, gpu_count);
  if (!devices) {
    std::cerr << devices.error() << "\n";
    return static_cast<int>(ExitCode::kConfiguration);
  }
  const std::vector<std::string> given(argv + 1, argv + argc);
  const int threads = std::max(1, options.threads / static_cast<int>(devices->size()));
  // They are in one memory cgroup. A bound that is given is that of each.
  const double memory_gib =
      options.memory_gib > 0 ? 0 : memory_limit(0).bytes / (1 << 30) / static_cast<double>(devices->size());
  std::vector<std::vector<std::string>> workers;
  for (const std::string& device : *devices) {
    workers.push_back(arguments_of({fmt::format("{}-{}", name, workers.size()), device, threads, memory_gib}, given));
  }
  return run_fleet("/proc/self/exe", workers);
}

}  // namespace

int run_worker_program(int argc, char** argv, const DeviceChoice& devices, const GpuCount& gpu_count) {
  try {
    const auto options = parse_options(argc, argv);
    if (!options) {
      (options.error().status == 0 ? std::cout : std::cerr) << options.error().text;
      return options.error().status;
    }
    if (!options->measure.empty()) return measure(*options, devices);
    if (!options->devices.empty()) return run_workers(*options, argc, argv, gpu_count);
    const char* incarnation = std::getenv(kIncarnationVariable);  // NOLINT(concurrency-mt-unsafe)
    return incarnation == nullptr ? run_supervisor(*options, argc, argv) : train(*options, devices, incarnation);
  } catch (const std::exception& error) {
    std::cerr << "holdfast-worker: " << error.what() << "\n";
    tell_reason(error.what());
    return 1;
  }
}

}  // namespace holdfast::worker

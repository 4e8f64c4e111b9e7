#include "worker/process/options.h"

#include <fmt/format.h>
#include <sched.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <string_view>

#include "rendezvous/client/http_client.h"
#include "rendezvous/client/servers.h"
#include "rendezvous/client/socket_address.h"
#include "rendezvous/client/url.h"
#include "rendezvous/protocol/commit.h"
#include "rendezvous/protocol/foreign_names.h"
#include "rendezvous/protocol/labels.h"
#include "storage/places/place.h"
#include "worker/devices/devices.h"
#include "worker/drills/fault_points.h"
#include "worker/process/fleet.h"

namespace holdfast::worker {
namespace {

constexpr const char* kDescription =
    "Trains for a Holdfast service: waits for jobs, takes part in them, and rejoins when this machine or another one failed.";
constexpr const char* kExamples = R"(Examples:
  holdfast-worker                                            for a service on this machine
  holdfast-worker --server http://10.0.0.1:7070 --interface eth0 --data_root /data
  holdfast-worker --name gpu-box-1 --threads 8 --labels zone=a,rack=3

SIGTERM (or Ctrl-C) leaves after the step under way; nothing is lost by it. A second one ends at once.
Environment: HOLDFAST_SERVER, HOLDFAST_TOKEN, HOLDFAST_CACERT, HOLDFAST_INTERFACE, HOLDFAST_THREADS, HOLDFAST_LOG_LEVEL, HOLDFAST_DRILLS,
HOLDFAST_TENSORBOARD_DIR; and where these are unset NCCL_SOCKET_IFNAME, NCCL_SHM_DISABLE=1, NCCL_DEBUG=INFO, NCCL_TIMEOUT (seconds; for jobs that leave collective_timeout_s at its default).)";
constexpr std::array kLogLevels{"trace", "debug", "info", "warning", "error"};
constexpr int kThreadsMax = 1024;
constexpr double kGibMin = 0.01, kGibMax = 1 << 20;

std::string environment(const char* name) {
  const char* value = std::getenv(name);  // NOLINT(concurrency-mt-unsafe): before there are threads
  return value == nullptr ? "" : value;
}

int available_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  return sched_getaffinity(0, sizeof set, &set) == 0 ? std::max(1, CPU_COUNT(&set)) : 1;
}

tl::unexpected<EarlyEnd> wrong(const std::string& text) {
  return tl::unexpected(EarlyEnd{text + "\n", 2});
}

bool parse_whole(std::string_view text, int64_t& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size();
}

bool valid_name(const std::string& name) {
  const auto plain = [](unsigned char c) { return std::isalnum(c) != 0 || c == '.' || c == '_' || c == '-'; };
  return name.size() <= 128 && std::all_of(name.begin(), name.end(), plain);
}

struct RawOptions {
  WorkerOptions options;
  std::string threads, ring_port, memory, data_cache;
  std::vector<std::string> labels;
};

void add_flags(CLI::App& app, RawOptions& raw) {
  WorkerOptions& options = raw.options;
  app.add_option(
      "--server", options.server,
      "URL of the service; of several that share a database URL,URL or @FILE [HOLDFAST_SERVER, http://127.0.0.1:7070]");
  app.add_option("--token", options.token, "worker token [HOLDFAST_TOKEN, else the service's own file on this machine]");
  app.add_option_function<std::string>(
      "--cacert", rendezvous::set_certificate_authority,
      "PEM file of who signed the service's certificate [HOLDFAST_CACERT, else whom this machine trusts]");
  app.add_option("--device", options.device,
                 "auto (a GPU if there is one), cpu, hip, hip:N (the GPU's number) or ref (plain loops, slow, for comparison)")
      ->capture_default_str();
  app.add_flag("--share_device", options.share_device,
               "take a GPU also if another worker of this machine has it; without this auto and hip take the next one, and "
               "hip:N is refused");
  app.add_option("--devices", options.devices,
                 "a worker for each of several: all (every GPU), 0,1,3 (GPUs by number) or cpu:N (N workers share the cores); "
                 "they are named NAME-0, NAME-1 and so on");
  app.add_option("--measure", options.measure,
                 "try the device with a job's model, given as JSON such as {\"model\": \"tiny\", \"batch_size\": 16}; prints "
                 "its speed as "
                 "JSON and ends, without a service")
      ->type_name("JSON");
  app.add_option("--name", options.name, "this worker's name, one of a kind [<hostname>-<pid>]");
  app.add_option("--interface", options.interface,
                 "network interface that other workers reach [the one that routes to the server]");
  app.add_option(
      "--ring_port,--ring-port", raw.ring_port,
      "port that other workers reach this one at, or a range of which each worker of this machine takes one: 7072-7087 "
      "[one that the system picks]");
  app.add_flag("!--no_shared_memory,!--no-shared-memory", options.shared_memory,
               "sum gradients over TCP with this machine's other workers, too, and not in memory that they have in common "
               "[NCCL_SHM_DISABLE=1]");
  app.add_option("--threads", raw.threads, "threads for computing [all cores of this process]");
  app.add_option("--memory_gib,--memory-gib", raw.memory,
                 "refuse jobs that need more of this machine's memory, in GiB [HOLDFAST_MEMORY_GIB, else the limit of this "
                 "process's memory cgroup where there is one]");
  app.add_option("--data_root,--data-root", options.data_root,
                 "folder that paths of jobs are below, and may not leave [any path]");
  app.add_option("--data_cache,--data-cache", options.data_cache,
                 "folder to keep data sets of the service (data:NAME) in, which workers of this machine share "
                 "[HOLDFAST_DATA_CACHE, else .holdfast/data-sets in --data_root, else ~/.cache/holdfast/data-sets]");
  app.add_option("--data_cache_gib,--data-cache-gib", raw.data_cache,
                 "keep at most so many GiB of data sets: those used longest ago go first [HOLDFAST_DATA_CACHE_GIB, else what "
                 "the volume has room for]");
  app.add_option("--checkpoint_root,--checkpoint-root", options.checkpoint_roots,
                 "folder, or place in S3 (s3://bucket/prefix), that jobs may keep checkpoints in and read them from, and "
                 "nowhere else; may be "
                 "given several times [anywhere]")
      ->type_size(1)
      ->allow_extra_args(false);
  app.add_option("--labels", raw.labels, "what jobs may require of a worker, such as zone=a,rack=3")
      ->type_name("KEY=VALUE,...")
      ->delimiter(',')
      ->allow_extra_args(false);
  app.add_option("--job", options.only_job,
                 "work for this job alone, such as j7, and end when it has ended [any job, until told to end]")
      ->type_name("JOB")
      ->check([](const std::string& id) { return std::string(id.empty() ? "expected a job's id, such as j7" : ""); });
  app.add_option("--drills", options.drills,
                 "obey files in this folder that slow this worker down, cut it off or corrupt what it sends: for `holdfast "
                 "chaos`; on all workers of a node or none (worker/drills/drills.h) [HOLDFAST_DRILLS, else none]");
  app.add_option(
      "--tensorboard_dir,--tensorboard-dir", options.tensorboard_dir,
      "write curves for TensorBoard to a folder of each job's name below this one, while this worker is rank 0; on all "
      "nodes the same, shared folder, or each has the part that it wrote [HOLDFAST_TENSORBOARD_DIR, else none]");
  app.add_option("--log_level,--log-level", options.log_level, "trace, debug, info, warning or error [info]");
}

// Flags of torchrun and of training scripts, each with what to write instead; "" when there are none among `typed`.
std::string complaint_of_foreign(const std::vector<std::string>& typed) {
  std::string all;
  for (const std::string& word : typed) {
    if (!word.starts_with("--")) continue;
    const auto* name = rendezvous::find_foreign_name(word.substr(2, word.find('=') - 2));
    if (name == nullptr) continue;
    const bool of_job = *name->field != '\0';
    all += fmt::format("{}{}: {}{}", all.empty() ? "" : "\n", word.substr(0, word.find('=')),
                       rendezvous::foreign_name_in_words(*name), of_job ? ", a flag of `holdfast submit`" : "");
  }
  return all;
}

// MASTER_ADDR is torchrun's word for the node that has the rendezvous. Its port is another program's.
std::string server_of_environment() {
  const std::string master = environment("MASTER_ADDR");
  if (master.empty() || !environment("HOLDFAST_SERVER").empty()) return rendezvous::default_server();
  return "http://" + (master.find(':') == std::string::npos ? master : "[" + master + "]") + ":7070";
}

tl::expected<void, EarlyEnd> complete_network(WorkerOptions& options) {
  if (options.server.empty()) options.server = server_of_environment();
  const std::vector<std::string> servers = rendezvous::Servers::listed(options.server);
  for (const std::string& server : servers) {
    // A name without a scheme got one, which people may have meant otherwise.
    const bool as_given = options.server.starts_with('@') || options.server.find(server) != std::string::npos;
    if (!as_given || rendezvous::host_of_url(server).empty())
      return wrong("--server: \"" + options.server + "\" is not a URL such as http://10.0.0.1:7070, nor a list of such");
  }
  if (servers.size() == 1) options.server = servers.front();
  options.server_host = rendezvous::host_of_url(servers.front());
  if (options.token.empty()) options.token = rendezvous::find_token("worker.token");
  if (options.interface.empty()) options.interface = rendezvous::interface_of_environment(options.server_host);
  if (const auto disable = environment("NCCL_SHM_DISABLE"); !disable.empty() && disable != "0") options.shared_memory = false;
  if (const auto seconds = environment("NCCL_TIMEOUT"); !seconds.empty()) {
    int64_t value = 0;
    if (!parse_whole(seconds, value) || value < 1) {
      return wrong("NCCL_TIMEOUT: \"" + seconds + "\" is not a whole number of seconds, at least 1");
    }
    options.collective_timeout = std::chrono::seconds(value);
  }
  return {};
}

tl::expected<void, EarlyEnd> complete_ring_ports(RawOptions& raw) {
  if (raw.ring_port.empty()) return {};
  const size_t dash = std::min(raw.ring_port.find('-'), raw.ring_port.size());
  const std::string_view text = raw.ring_port, first_text = text.substr(0, dash);
  const std::string_view last_text = dash < text.size() ? text.substr(dash + 1) : first_text;
  int64_t first = 0, last = 0;
  if (!parse_whole(first_text, first) || !parse_whole(last_text, last) || first < 1 || last > 65535 || first > last) {
    return wrong("--ring_port: \"" + raw.ring_port +
                 "\" is neither a port from 1 to 65535 nor a range of them such as 7072-7087");
  }
  raw.options.ring_ports = {static_cast<uint16_t>(first), static_cast<uint16_t>(last)};
  return {};
}

tl::expected<void, EarlyEnd> complete_devices(const WorkerOptions& options) {
  if (options.devices.empty()) return {};
  if (!is_list_of_devices(options.devices)) {
    return wrong("--devices: \"" + options.devices + "\" is not all, numbers of GPUs such as 0,1,3, or cpu:N (N from 1 to 64)");
  }
  if (options.device != "auto") return wrong("--devices: give it or --device " + options.device + ", not both");
  return {};
}

tl::expected<void, EarlyEnd> complete_device(RawOptions& raw) {
  WorkerOptions& options = raw.options;
  if (!is_device_name(options.device)) {
    return wrong("--device: \"" + options.device + "\" is not auto, cpu, hip, hip:N (the GPU's number, from 0) or ref");
  }
  if (raw.threads.empty()) raw.threads = environment("HOLDFAST_THREADS");
  int64_t threads = available_cores();
  if (!raw.threads.empty() && (!parse_whole(raw.threads, threads) || threads < 1 || threads > kThreadsMax)) {
    return wrong(fmt::format("--threads: \"{}\" is not a whole number from 1 to {}", raw.threads, kThreadsMax));
  }
  options.threads = static_cast<int>(threads);
  const std::string of_torchrun = environment("LOCAL_RANK");
  const std::string local_rank = of_torchrun.empty() ? environment("SLURM_LOCALID") : of_torchrun;
  int64_t gpu = 0;
  if (options.device == "auto" && options.devices.empty() && parse_whole(local_rank, gpu) && gpu >= 0) options.local_rank = gpu;
  return {};
}

// Of a flag, or of the environment's variable where the flag is not given.
tl::expected<void, EarlyEnd> complete_gib(std::string text, const char* flag, const char* variable, double& gib) {
  if (text.empty()) text = environment(variable);
  if (text.empty()) return {};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), gib);
  const bool whole = error == std::errc() && end == text.data() + text.size();
  if (!whole || !(gib >= kGibMin) || gib > kGibMax)
    return wrong(fmt::format("{}: \"{}\" is not a number of GiB from {} to {}", flag, text, kGibMin, kGibMax));
  return {};
}

tl::expected<void, EarlyEnd> complete_sizes(RawOptions& raw) {
  if (auto memory = complete_gib(raw.memory, "--memory_gib", "HOLDFAST_MEMORY_GIB", raw.options.memory_gib); !memory)
    return memory;
  return complete_gib(raw.data_cache, "--data_cache_gib", "HOLDFAST_DATA_CACHE_GIB", raw.options.data_cache_gib);
}

tl::expected<void, EarlyEnd> complete_labels(RawOptions& raw) {
  auto& labels = raw.options.labels;
  for (const std::string& pair : raw.labels) {
    const size_t equals = pair.find('=');
    if (equals == std::string::npos || equals == 0) return wrong("--labels: \"" + pair + "\" is not KEY=VALUE, such as zone=a");
    if (!labels.emplace(pair.substr(0, equals), pair.substr(equals + 1)).second)
      return wrong("--labels: " + pair.substr(0, equals) + " is given twice");
  }
  const std::string complaint = rendezvous::worker_labels_complaint(labels);
  return complaint.empty() ? tl::expected<void, EarlyEnd>{} : wrong("--labels: " + complaint);
}

tl::expected<void, EarlyEnd> complete_rest(WorkerOptions& options) {
  if (!valid_name(options.name)) {
    return wrong("--name: \"" + options.name + "\" may have letters, digits, '.', '_' and '-', at most 128 of them");
  }
  if (!options.data_root.empty() && !std::filesystem::is_directory(options.data_root)) {
    return wrong("--data_root: " + options.data_root + " is not a folder on this machine");
  }
  if (options.data_cache.empty()) options.data_cache = environment("HOLDFAST_DATA_CACHE");
  for (const std::string& root : options.checkpoint_roots) {
    if (storage::is_s3(root)) {
      if (const auto place = storage::parse_s3_place(root); !place) return wrong("--checkpoint_root: " + place.error());
      continue;
    }
    if (!std::filesystem::is_directory(root)) return wrong("--checkpoint_root: " + root + " is not a folder on this machine");
  }
  if (options.log_level.empty()) options.log_level = environment("HOLDFAST_LOG_LEVEL");
  if (options.log_level.empty() && !environment("NCCL_DEBUG").empty()) {
    options.log_level = environment("NCCL_DEBUG") == "TRACE"  ? "trace"
                        : environment("NCCL_DEBUG") == "WARN" ? "warning"
                                                              : "info";
  }
  if (options.log_level.empty()) options.log_level = "info";
  if (std::find(kLogLevels.begin(), kLogLevels.end(), options.log_level) == kLogLevels.end()) {
    return wrong("--log_level: \"" + options.log_level + "\" is not trace, debug, info, warning or error");
  }
  if (options.drills.empty()) options.drills = environment("HOLDFAST_DRILLS");
  if (!options.drills.empty() && !std::filesystem::is_directory(options.drills)) {
    return wrong("--drills: " + options.drills + " is not a folder on this machine");
  }
  if (options.tensorboard_dir.empty()) options.tensorboard_dir = environment("HOLDFAST_TENSORBOARD_DIR");
  std::error_code unknown;
  if (std::filesystem::exists(options.tensorboard_dir, unknown) && !std::filesystem::is_directory(options.tensorboard_dir)) {
    return wrong("--tensorboard_dir: " + options.tensorboard_dir + " is there and is no folder");
  }
  options.fault_rules = environment("HOLDFAST_FAULT");
  if (options.fault_rules.empty()) return {};
  const auto rules = parse_fault_rules(options.fault_rules);
  return rules ? tl::expected<void, EarlyEnd>{} : wrong(rules.error());
}

}  // namespace

tl::expected<WorkerOptions, EarlyEnd> parse_options(int argc, const char* const* argv) {
  RawOptions raw;
  raw.options.log_level.clear();
  CLI::App app(kDescription, "holdfast-worker");
  app.footer(kExamples);
  app.set_version_flag("--version", "holdfast-worker " + rendezvous::version_and_commit());
  add_flags(app, raw);
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    return tl::unexpected(EarlyEnd{app.help(), 0});
  } catch (const CLI::CallForVersion& asked) {
    return tl::unexpected(EarlyEnd{std::string(asked.what()) + "\n", 0});
  } catch (const CLI::ParseError& error) {
    if (const std::string foreign = complaint_of_foreign(app.remaining()); !foreign.empty()) return wrong(foreign);
    return wrong(std::string(error.what()) + " (holdfast-worker --help lists the flags)");
  }
  if (auto done = complete_network(raw.options); !done) return tl::unexpected(done.error());
  if (auto done = complete_ring_ports(raw); !done) return tl::unexpected(done.error());
  if (auto done = complete_device(raw); !done) return tl::unexpected(done.error());
  if (auto done = complete_devices(raw.options); !done) return tl::unexpected(done.error());
  if (auto done = complete_sizes(raw); !done) return tl::unexpected(done.error());
  if (auto done = complete_labels(raw); !done) return tl::unexpected(done.error());
  if (auto done = complete_rest(raw.options); !done) return tl::unexpected(done.error());
  return std::move(raw.options);
}

}  // namespace holdfast::worker

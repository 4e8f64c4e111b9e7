// This machine: limits, memory, what its processor computes with, GPUs, and the training file.
#include <fmt/format.h>
#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <utility>

#include "kernels/cpu/isa.h"
#include "kernels/host_ops.h"
#include "model/data/describe.h"
#include "ops/cli/doctor/doctor.h"
#include "ops/cli/terminal/format.h"
#include "rendezvous/protocol/data_source.h"
#include "rendezvous/text/plural.h"

namespace holdfast::ops {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kOpenFilesWanted = 4096;  // four connections for each of a thousand workers
constexpr double kMemoryWanted = 1e9;

Check check_limits() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return {"limits", Verdict::kWarn, "the limit of open files cannot be read", ""};
  const auto hard = static_cast<int64_t>(std::min<rlim_t>(limit.rlim_max, INT64_MAX));
  Check check{"limits", Verdict::kOk, fmt::format("a process may have {} files and connections open", count_text(hard)), ""};
  if (hard < kOpenFilesWanted) {
    check.verdict = Verdict::kWarn;
    check.remedy = fmt::format("a service has four open for each worker: LimitNOFILE= of a systemd unit, or ulimit -Hn {}",
                               kOpenFilesWanted);
  }
  return check;
}

double available_memory() {
  std::ifstream file("/proc/meminfo");
  std::string name, unit;
  for (double kib = 0; file >> name >> kib; std::getline(file, unit)) {
    if (name == "MemAvailable:") return kib * 1024;
  }
  return 0;
}

Check check_memory() {
  const auto all = static_cast<double>(kernels::host_memory_bytes());
  const double available = std::min(all, available_memory());
  Check check{"memory", Verdict::kOk, fmt::format("{}, {} of it available", bytes_text(all), bytes_text(available)), ""};
  if (available < kMemoryWanted) {
    check.verdict = Verdict::kWarn;
    check.remedy =
        "a worker holds some 16 bytes a parameter, and activations: see who else takes memory here (ps --sort=-rss aux)";
  }
  return check;
}

int cores_of_this_process() {
  cpu_set_t set;
  CPU_ZERO(&set);
  return sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 0;
}

Check check_processor(const ServiceSeen& seen) {
  const std::string model = kernels::host_cpu_model();
  try {
    return judge_processor(model, kernels::cpu::numerics_name(kernels::cpu::isa_of_environment()), cores_of_this_process(),
                           seen.nodes.value_or(Json::array()));
  } catch (const std::exception& error) {
    return {"processor", Verdict::kFail, fmt::format("{}: {}", model, error.what()), "a worker cannot compute on it"};
  }
}

int64_t entries(const char* folder) {
  std::error_code error;
  const auto all = fs::directory_iterator(folder, error);
  return error ? 0 : std::distance(fs::begin(all), fs::end(all));
}

// The processor is a node of KFD's, too; it has no SIMDs of a GPU.
int64_t amd_gpus() {
  int64_t count = 0;
  std::error_code error;
  for (const auto& node : fs::directory_iterator("/sys/class/kfd/kfd/topology/nodes", error)) {
    std::ifstream file(node.path() / "properties");
    std::string name;
    for (int64_t value = 0; file >> name >> value;) count += name == "simd_count" && value > 0 ? 1 : 0;
  }
  return count;
}

Check check_gpus() {
  const int64_t amd = amd_gpus(), nvidia = entries("/proc/driver/nvidia/gpus");
  if (amd + nvidia == 0) return {"gpu", Verdict::kOk, "none that a driver shows: --device auto takes the processor", ""};
  const std::string found = amd > 0 && nvidia > 0 ? fmt::format("{} of AMD's and {} of NVIDIA's", amd, nvidia)
                                                  : fmt::format("{} of {}", amd + nvidia, amd > 0 ? "AMD's" : "NVIDIA's");
  const char* const device = amd > 0 ? "/dev/kfd" : "/dev/nvidiactl";
  if (access(device, R_OK | W_OK) != 0) {
    return {"gpu", Verdict::kWarn, fmt::format("{}, but this user cannot open {}", found, device),
            amd > 0 ? "add the workers' user to the groups render and video" : "see who may open it: ls -l /dev/nvidia*"};
  }
  return {"gpu", Verdict::kOk, found + ": a worker needs a build for it (ops/build hip, or cuda)", ""};
}

Check check_training_file(const rendezvous::DataSource& source) {
  if (source.in_set()) {
    return {"training file", Verdict::kOk,
            fmt::format("{} is in a data set, which workers fetch from the service", rendezvous::to_text({source})), ""};
  }
  const std::string& path = source.path;
  const auto data = model::describe_data_file(path);
  if (!data)
    return {"training file", Verdict::kFail, data.error(),
            "`holdfast data prepare` makes one; the same must be on every worker"};
  return {"training file", Verdict::kOk,
          fmt::format("{}: {} tokens, ids up to {}; digest {}, which must be the same on every worker", path,
                      count_text(data->tokens), data->largest_id, data->digest),
          ""};
}

bool has_aes() {
#if defined(__x86_64__)
  return __builtin_cpu_supports("aes") != 0 && __builtin_cpu_supports("pclmul") != 0;
#else
  return true;
#endif
}

Check check_encryption() {
  std::string modules;
  std::ifstream file("/proc/sys/net/ipv4/tcp_available_ulp");
  std::getline(file, modules);
  return judge_encryption(has_aes(), modules);
}

// Each source of a train_data_path.
std::vector<Check> check_training_data(const std::string& text) {
  const auto sources = rendezvous::parse_training_sources(text);
  if (!sources) return {{"training file", Verdict::kFail, sources.error(), "see `holdfast help train_data_path`"}};
  std::vector<Check> checks;
  for (const rendezvous::DataSource& source : *sources) checks.push_back(check_training_file(source));
  return checks;
}

}  // namespace

Check judge_encryption(bool has_aes, const std::string& kernel_modules) {
  const std::string with = has_aes ? "AES-128-GCM, for which the processor has instructions" : "ChaCha20-Poly1305";
  std::istringstream modules(kernel_modules);
  const std::vector<std::string> names{std::istream_iterator<std::string>(modules), {}};
  if (std::ranges::find(names, "tls") != names.end())
    return {"encryption", Verdict::kOk, fmt::format("ring_tls would use {}, in the kernel where OpenSSL hands it over", with),
            ""};
  return {"encryption", Verdict::kOk, fmt::format("ring_tls would use {}, in OpenSSL: the kernel has no TLS loaded", with),
          "`modprobe tls` loads it where the kernel has it; it is no must"};
}

Check judge_processor(const std::string& model, const std::string& numerics, int cores, const Json& nodes) {
  Check check{"processor", Verdict::kOk,
              fmt::format("{}, {}; computes as {}", model, rendezvous::counted(cores, "core"), numerics), ""};
  std::string others;
  for (const Json& node : nodes) {
    const std::string other = text_at(node, "numerics");
    if (text_at(node, "state") != "alive" || text_at(node, "device") != "cpu" || other == numerics) continue;
    others += fmt::format("{}{} as {}", others.empty() ? "" : ", ", text_at(node, "id"), other);
  }
  if (!others.empty()) {
    check.verdict = Verdict::kWarn;
    check.seen += fmt::format("; but {}", others);
    check.remedy =
        "an exact job refuses workers that compute otherwise than its first: set HOLDFAST_CPU_ISA to what all have "
        "(avx2, avx512) on every worker, or submit with --reduction float";
  }
  return check;
}

std::vector<Check> check_machine(const DoctorArguments& arguments, const ServiceSeen& seen) {
  std::vector<Check> checks{check_limits(), check_memory(), check_processor(seen), check_gpus(), check_encryption()};
  if (arguments.train_data_path.empty()) return checks;
  for (Check& check : check_training_data(arguments.train_data_path)) checks.push_back(std::move(check));
  return checks;
}

}  // namespace holdfast::ops

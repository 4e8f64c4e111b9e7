// Slurm, where this machine belongs to a cluster: its controller answers, some node can work, and munge vouches for this user.
#include <fmt/format.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include "ops/cli/doctor/doctor.h"
#include "ops/cli/launch/child_process.h"
#include "ops/cli/terminal/text_width.h"
#include "rendezvous/text/plural.h"

namespace holdfast::ops {
namespace {

constexpr std::chrono::seconds kSlurmAnswersWithin{15};
constexpr const char* kUsualConfiguration = "/etc/slurm/slurm.conf";

std::string slurm_configuration() {
  const char* given = std::getenv("SLURM_CONF");  // NOLINT(concurrency-mt-unsafe): no thread changes it
  std::error_code ignored;
  if (given != nullptr && *given != '\0') return given;
  return std::filesystem::exists(kUsualConfiguration, ignored) ? kUsualConfiguration : "";
}

// Of "AuthInfo=socket=/run/munge/munge.socket.2"; "" where the configuration says nothing of it.
std::string socket_of_munge(const std::string& configuration) {
  std::ifstream file(configuration);
  for (std::string line; std::getline(file, line);) {
    const size_t socket = line.starts_with("AuthInfo=") ? line.find("socket=") : std::string::npos;
    if (socket != std::string::npos) return line.substr(socket + 7, line.find_first_of(", \t", socket) - socket - 7);
  }
  return "";
}

std::string last_line_of(const std::string& text) {
  std::string line = text;
  while (line.ends_with('\n')) line.pop_back();
  return printable(line.substr(line.rfind('\n') + 1));
}

bool can_work(const std::string& state) {
  return state.starts_with("idle") || state.starts_with("mixed") || state.starts_with("allocated") ||
         state.starts_with("completing");
}

}  // namespace

Check judge_slurm(int status, const std::string& text) {
  if (status != 0) {
    return {"slurm", Verdict::kFail, fmt::format("sinfo does not work: {}", status == 124 ? "no answer" : last_line_of(text)),
            "`scontrol ping` says whether slurmctld is there; SLURM_CONF or /etc/slurm/slurm.conf says where it is looked for"};
  }
  std::map<std::string, int64_t> nodes;  // by state
  int64_t all = 0, working = 0;
  std::istringstream lines(text);
  std::string state;
  for (int64_t count = 0; lines >> state >> count;) {
    nodes[state] += count;
    all += count;
    if (can_work(state)) working += count;
  }
  std::string seen = fmt::format("slurmctld answers; {}", rendezvous::counted(all, "node"));
  for (const auto& [name, count] : nodes)
    seen += fmt::format("{}{} {}", name == nodes.begin()->first ? ": " : ", ", count, name);
  if (working > 0) return {"slurm", Verdict::kOk, seen, ""};
  return {"slurm", Verdict::kWarn, seen,
          "no node takes a job: `sinfo -R` says why; `scontrol update nodename=NODE state=resume` when it is mended"};
}

Check judge_munge(int status, const std::string& text) {
  if (status == 0) return {"munge", Verdict::kOk, "munge vouches for this user", ""};
  return {"munge", Verdict::kFail, fmt::format("munge does not vouch for this user: {}", last_line_of(text)),
          "`systemctl restart munge`; all nodes have the same /etc/munge/munge.key, and clocks that agree"};
}

std::vector<Check> check_slurm() {
  const std::string configuration = slurm_configuration();
  if (configuration.empty() || run_to_end({"sinfo", "--version"}, kSlurmAnswersWithin).status != 0) return {};
  const std::string socket = socket_of_munge(configuration);
  const Ended munge =
      run_to_end({"sh", "-c", R"(munge ${1:+-S "$1"} -n | unmunge ${1:+-S "$1"})", "sh", socket}, kSlurmAnswersWithin);
  const Ended sinfo = run_to_end({"sinfo", "--noheader", "--format=%T %D"}, kSlurmAnswersWithin);
  return {judge_munge(munge.status, munge.text), judge_slurm(sinfo.status, sinfo.text)};
}

}  // namespace holdfast::ops

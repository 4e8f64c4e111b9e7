#include "ops/cli/launch/slurm.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <chrono>

#include "ops/cli/launch/child_process.h"
#include "ops/cli/terminal/text_width.h"

namespace holdfast::ops {
namespace {

constexpr std::chrono::seconds kSlurmPatience{60};

std::string last_line(const std::string& text) {
  std::string line = text;
  while (line.ends_with('\n')) line.pop_back();
  return printable(line.substr(line.rfind('\n') + 1));
}

}  // namespace

bool has_slurm() {
  return run_to_end({"sbatch", "--version"}, kSlurmPatience).status == 0;
}

std::vector<std::string> sbatch_command(const SlurmRequest& request) {
  std::vector<std::string> command{"sbatch", "--parsable", fmt::format("--job-name=holdfast-{}", request.job),
                                   fmt::format("--nodes={}", request.nodes),
                                   fmt::format("--ntasks-per-node={}", request.workers_per_node)};
  command.insert(command.end(), request.options.begin(), request.options.end());
  return command;
}

// The environment goes along with a job of Slurm, as far as its owner and Slurm itself see it.
std::string submit_to_slurm(const SlurmRequest& request) {
  std::vector<std::string> environment{"HOLDFAST_SERVER=" + request.server, "HOLDFAST_TOKEN=" + request.token,
                                       "HOLDFAST_JOB=" + request.job, "HOLDFAST_WORKER_OPTIONS=" + request.worker_options};
  if (!request.programs.empty()) environment.push_back("HOLDFAST_BIN=" + request.programs);
  const Ended ended = run_to_end(sbatch_command(request), kSlurmPatience, kBatchScript, environment);
  if (ended.status == 124)
    throw Failure{kUnreachable, fmt::format("sbatch did not answer within {} s: is slurmctld reached (scontrol ping)?",
                                            kSlurmPatience.count())};
  if (ended.status != 0) throw Failure{kBadInput, fmt::format("sbatch refused the workers: {}", last_line(ended.text))};
  const std::string said = last_line(ended.text);  // "42", or "42;cluster"
  const std::string number = said.substr(0, said.find(';'));
  if (number.empty() || !std::ranges::all_of(number, [](unsigned char c) { return std::isdigit(c) != 0; }))
    throw Failure{kJobFailed, fmt::format("sbatch said \"{}\", where the number of a job was expected", said)};
  return number;
}

void cancel_in_queue(const std::string& slurm_job) {
  run_to_end({"scancel", "--state=PENDING", slurm_job}, kSlurmPatience);  // refused where it runs or is over, which is well
}

}  // namespace holdfast::ops

// `holdfast chaos`: a drill on a running job.
#include <fmt/format.h>
#include <unistd.h>
#include <CLI/CLI.hpp>

#include <cstdio>
#include <fstream>
#include <iterator>
#include <random>
#include <set>

#include "ops/cli/chaos/drill.h"
#include "ops/cli/command/api.h"
#include "ops/cli/command/command.h"
#include "ops/cli/jobs/text.h"
#include "ops/cli/terminal/format.h"
#include "rendezvous/text/plural.h"

namespace holdfast::ops {
namespace {

constexpr double kSettleSeconds = 10;  // after a script's last fault

constexpr const char* kExample = R"(holdfast chaos j1 --faults kill,freeze --every 15s --for 10m --reference j0

Faults:
  kill          kill -9 of a worker's training process; its supervisor starts it again
  freeze        SIGSTOP of it, and SIGCONT after --hold
  cut           its network is silent both ways for --hold     \
  slow          its steps take 100 ms longer for --hold         > workers started with --drills DIR
  corrupt       one byte that it sends to its neighbour flips  /
  service-kill  kill -9 of the service: give it something that starts it again, such as systemd

It acts on processes of this node, as the same user; for workers of other nodes, run it there as well. The job goes on
after the drill. Times are the service's: keep the clocks of the nodes together.

A script has one fault a line, in order of time:   AT FAULT [WORKER] [for DURATION]
  10s kill w2
  25s freeze w1 for 6s)";

struct ChaosArguments {
  std::string job, faults, script, every = "15s", length = "1m", hold = "6s", drills, expect_hash, reference;
  uint64_t seed = 0;
  int64_t service_pid = -1;
  bool yes = false, quiet = false, spare_none = false;
};

double seconds_in(const std::string& flag, const std::string& text, bool zero_too = false) {
  const auto seconds = parse_duration(text);
  if (!seconds) throw Failure{kBadInput, fmt::format("{}: {}", flag, seconds.error())};
  if (*seconds <= 0 && !zero_too) throw Failure{kBadInput, fmt::format("{} must be longer than 0", flag)};
  return *seconds;
}

std::string read_script(const std::string& path) {
  std::ifstream file(path);
  if (!file) throw Failure{kBadInput, fmt::format("--script: cannot read {}", path)};
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

std::vector<PlannedFault> plan_of(const ChaosArguments& arguments, double& for_s) {
  const double hold_s = seconds_in("--hold", arguments.hold, true);
  if (arguments.script.empty()) {
    const auto kinds = parse_faults(arguments.faults);
    if (!kinds) throw Failure{kBadInput, "--faults: " + kinds.error()};
    for_s = seconds_in("--for", arguments.length);
    return draw_plan({*kinds, seconds_in("--every", arguments.every), for_s, hold_s, arguments.seed});
  }
  auto plan = parse_script(read_script(arguments.script), hold_s, arguments.seed);
  if (!plan) throw Failure{kBadInput, fmt::format("--script: {}: {}", arguments.script, plan.error())};
  for_s = 0;
  for (const PlannedFault& fault : *plan) for_s = std::max(for_s, fault.at_s + fault.hold_s + kSettleSeconds);
  return *std::move(plan);
}

int port_of(const std::string& server) {
  const size_t host = server.find("://") == std::string::npos ? 0 : server.find("://") + 3;
  const size_t colon = server.find(':', server.find(']', host) == std::string::npos ? host : server.find(']', host));
  return colon == std::string::npos ? 80 : std::atoi(server.c_str() + colon + 1);
}

void check_drills(const ChaosArguments& arguments, const std::vector<PlannedFault>& plan) {
  for (const PlannedFault& fault : plan) {
    if (!needs_consent(fault.kind) || !arguments.drills.empty()) continue;
    throw Failure{kBadInput,
                  fmt::format("{} needs the workers' consent: start them with --drills DIR, and give the same DIR here",
                              fault_name(fault.kind))};
  }
  if (!arguments.drills.empty() && ::access(arguments.drills.c_str(), W_OK) != 0)
    throw Failure{kBadInput, fmt::format("--drills: {} is no folder that this user may write to", arguments.drills)};
}

std::string who_is_where(const Json& workers, const std::string& job) {
  std::string here, elsewhere;
  for (const Json& worker : workers) {
    if (text_at(worker, "job") != job) continue;
    std::string& list = text_at(worker, "node") == this_node() ? here : elsewhere;
    list += (list.empty() ? "" : ", ") + text_at(worker, "id");
  }
  return fmt::format("workers on this node: {}{}", here.empty() ? "none" : here,
                     elsewhere.empty() ? "" : fmt::format("; left alone, on other nodes: {}", elsewhere));
}

void ask(const ChaosArguments& arguments, const std::vector<PlannedFault>& plan, const Json& workers, const std::string& job) {
  std::set<std::string> kinds;
  for (const PlannedFault& fault : plan) kinds.insert(fault_name(fault.kind));
  const std::string what = fmt::format("{} on {} ({}), seed {}; {}", rendezvous::counted(plan.size(), "fault"), job,
                                       fmt::join(kinds, ", "), arguments.seed, who_is_where(workers, job));
  if (arguments.yes) {
    if (!arguments.quiet) fmt::print(stderr, "{}\n", what);
    return;
  }
  if (isatty(STDIN_FILENO) == 0)
    throw Failure{kBadInput, "chaos harms running processes: give --yes, or run it at a terminal and answer"};
  fmt::print(stderr, "{}\nGo on? [y/N] ", what);
  const int answer = std::getchar();
  if (answer != 'y' && answer != 'Y') throw Failure{kBadInput, "nothing was done"};
}

// A job that a drill is compared with: it ended well.
std::string reference_of(Api& api, const std::string& wanted) {
  const std::string id = api.job_id(wanted);
  const std::string state = text_at(api.get("/v1/jobs/" + id), "state");
  if (state != "succeeded") throw Failure{kBadInput, fmt::format("--reference: {} is {}: it must have succeeded", id, state)};
  return id;
}

DrillSettings settings_of(Api& api, const ChaosArguments& arguments, std::vector<PlannedFault> plan, double for_s) {
  DrillSettings settings;
  settings.plan = std::move(plan);
  settings.for_s = for_s;
  settings.job = api.job_id(arguments.job);
  settings.seed = arguments.seed;
  settings.spare_none = arguments.spare_none;
  settings.quiet = arguments.quiet;
  settings.expected_hash = arguments.expect_hash;
  if (!arguments.reference.empty()) settings.reference = reference_of(api, arguments.reference);
  settings.wait_for_end = !settings.expected_hash.empty() || !settings.reference.empty();
  const std::string state = text_at(api.get("/v1/jobs/" + settings.job), "state");
  if (is_final(state)) throw Failure{kBadInput, fmt::format("{} is {}: a drill needs a job that runs", settings.job, state)};
  return settings;
}

void chaos(const Options& options, ChaosArguments arguments) {
  if (arguments.faults.empty() == arguments.script.empty())
    throw Failure{kBadInput, "say which faults: --faults kill,freeze or --script FILE"};
  if (!arguments.expect_hash.empty() && !arguments.reference.empty())
    throw Failure{kBadInput, "--expect_hash and --reference both say which hash is expected: give one"};
  if (arguments.seed == 0) arguments.seed = std::random_device{}() % 1'000'000 + 1;
  double for_s = 0;
  auto plan = plan_of(arguments, for_s);
  check_drills(arguments, plan);
  Api api(options);
  const DrillSettings settings = settings_of(api, arguments, std::move(plan), for_s);
  ask(arguments, settings.plan, api.list("/v1/nodes", "nodes"), settings.job);
  Faults faults(arguments.drills, arguments.service_pid, port_of(server_of(options)));
  const Drill drill = run_drill(api, settings, faults);
  const DrillReport report = judge(drill);
  if (options.json) {
    print_json(report_json(drill, report));
  } else {
    fmt::print("{}", report_text(drill, report));
  }
  const bool as_expected = !settings.wait_for_end || report.same_hash.value_or(false);
  if (!as_expected) throw Failure{kJobFailed, ""};
}

}  // namespace

void add_chaos_command(CLI::App& app, Options& options) {
  const auto arguments = std::make_shared<ChaosArguments>();
  CLI::App* command = add_command(app, options, "chaos",
                                  "Bring faults about in a running job, for drills, and report what they cost", kExample);
  add_job_argument(*command, arguments->job);
  command->add_option("--faults", arguments->faults, "Which faults to draw from")->type_name("LIST");
  command->add_option("--script", arguments->script, "Which faults, when and on whom")->type_name("FILE");
  command->add_option("--seed", arguments->seed, "The same seed draws the same faults [a new one each time]");
  command->add_option("--every", arguments->every, "Pause between faults, on average")
      ->type_name("DURATION")
      ->capture_default_str();
  command->add_option("--for", arguments->length, "How long faults are drawn for")
      ->type_name("DURATION")
      ->capture_default_str();
  command->add_option("--hold", arguments->hold, "How long freeze, cut and slow last")
      ->type_name("DURATION")
      ->capture_default_str();
  command->add_option("--drills", arguments->drills, "The folder that workers were given with --drills")->type_name("DIR");
  command->add_option("--service_pid", arguments->service_pid, "The service's process [who listens at --server's port here]");
  command
      ->add_option("--expect_hash", arguments->expect_hash, "Wait for the job's end; exit code 1 unless its state hash is this")
      ->type_name("HASH");
  command
      ->add_option("--reference", arguments->reference,
                   "The same with the hash of this job, which succeeded undisturbed; throughput is compared with its, too")
      ->type_name("JOB");
  command->add_flag("--spare_none", arguments->spare_none, "Hit the job's only healthy worker, too");
  command->add_flag("--quiet", arguments->quiet, "Print the report only");
  command->add_flag("--yes", arguments->yes, "Do not ask");
  command->callback([&options, arguments] { chaos(options, *arguments); });
}

}  // namespace holdfast::ops

// `holdfast submit`: flags and files into a job spec. The flags are the fields of the spec's table, one to one.
//
// The service judges the spec, not this program: it may be newer, and it names all errors at once.
#include <fmt/format.h>
#include <unistd.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>

#include "model/exchange/initial_weights.h"
#include "ops/cli/command/api.h"
#include "ops/cli/command/command.h"
#include "ops/cli/jobs/spec_flags.h"
#include "ops/cli/jobs/watch.h"
#include "ops/cli/launch/launch.h"
#include "ops/cli/submit/auto_plan.h"
#include "ops/cli/submit/foreign_flags.h"
#include "ops/cli/terminal/terminal.h"
#include "rendezvous/protocol/data_source.h"
#include "rendezvous/protocol/initial_source.h"
#include "rendezvous/text/errno_text.h"
#include "rendezvous/text/nearest_name.h"

namespace holdfast::ops {
namespace {

namespace fs = std::filesystem;

struct SubmitArguments {
  std::string config, key;
  bool watch = false, dry_run = false, print_config = false;
  std::map<std::string, std::string> flags;  // as typed
  AutoFlags automatic;
  ForeignFlags foreign;
  LaunchFlags launch;
  std::map<std::string, std::vector<std::string>> pairs;  // of flags that take KEY=VALUE again and again
};

Json read_config(const std::string& path) {
  Json json;
  if (path == "-") {
    json = Json::parse(std::cin, nullptr, false);
  } else {
    std::ifstream file(path);
    if (!file) throw Failure{kBadInput, fmt::format("cannot read {}: {}", path, rendezvous::describe_errno(errno))};
    json = Json::parse(file, nullptr, false);
  }
  const std::string named = path == "-" ? "what stdin brought" : path;
  if (!json.is_object()) {
    throw Failure{
        kBadInput,
        fmt::format("{} is no job spec: expected a JSON object such as {{\"train_data_path\": \"train.bin\"}}", named)};
  }
  if (has(json, "spec") && has(json, "state")) {
    throw Failure{kBadInput, fmt::format("{} is a job, not a job spec: `holdfast show {} --spec` prints the spec alone", named,
                                         text_at(json, "id", "JOB"))};
  }
  return json;
}

Json map_of(const std::string& flag, const std::vector<std::string>& pairs) {
  Json map = Json::object();
  for (const std::string& pair : pairs) {
    const size_t equals = pair.find('=');
    if (equals == std::string::npos)
      throw Failure{kBadInput, fmt::format("--{} {}: expected KEY=VALUE, such as {}", flag, pair,
                                           flag == "requires" ? "device=hip" : "team=nlp")};
    map[pair.substr(0, equals)] = pair.substr(equals + 1);
  }
  return map;
}

// A relative path means the file here when there is one here; else it is left to mean one below the workers' --data_root.
std::string absolute_path(const std::string& path, bool always) {
  if (path.empty() || path.front() == '/' || path.find("://") != std::string::npos) return path;
  std::error_code ignored;
  return always || fs::exists(path, ignored) ? fs::absolute(path).lexically_normal().string() : path;
}

void make_absolute(Json& spec, const char* field, bool always) {
  if (spec.contains(field) && spec[field].is_string()) spec[field] = absolute_path(spec[field].get<std::string>(), always);
}

// Each file of a mixture. Text that is wrong is left for the service to judge.
void make_sources_absolute(Json& spec, const char* field) {
  const auto sources = rendezvous::parse_training_sources(text_at(spec, field));
  if (!sources) return;
  auto absolute = *sources;
  for (rendezvous::DataSource& source : absolute) {
    if (!source.in_set()) source.path = absolute_path(source.path, false);
  }
  if (absolute == *sources) return;
  const std::string text = rendezvous::to_text(absolute);
  if (rendezvous::parse_training_sources(text) != absolute) {
    throw Failure{kBadInput,
                  fmt::format("{}: {} would be read as another mixture: a folder of a file in it has a comma in its name; give "
                              "paths without one, such as through a symbolic link",
                              field, text)};
  }
  spec[field] = text;
}

// Sizes that are left open, and whether the head is tied, are those of the model to begin with, where it is seen from here,
// too. That it is not there, or cannot be read, is the workers' to complain of.
void take_sizes_of_weights(Json& spec) {
  const rendezvous::InitialSource source = rendezvous::parse_initial_source(text_at(spec, "init_from"));
  std::error_code ignored;
  if (source.path.empty() || !fs::exists(source.path, ignored)) return;
  const auto config = model::config_of_weights(source.path, source.step);
  if (!config) return;
  const std::pair<const char*, int64_t> sizes[] = {{"n_layer", config->n_layer},
                                                   {"n_embd", config->n_embd},
                                                   {"n_head", config->n_head},
                                                   {"vocab_size", config->vocab_size},
                                                   {"block_size", config->block_size}};
  for (const auto& [name, size] : sizes) {
    if (!spec.contains(name) && !spec.contains("model")) spec[name] = size;
  }
  if (!config->ties_head && !spec.contains("tied_head")) spec["tied_head"] = "off";
}

Json spec_of(const SubmitArguments& arguments) {
  Json spec = arguments.config.empty() ? Json::object() : read_config(arguments.config);
  arguments.foreign.apply(spec, arguments.flags);
  for (const auto& [name, pairs] : arguments.pairs) {
    if (!pairs.empty()) spec[name] = map_of(name, pairs);
  }
  make_sources_absolute(spec, "train_data_path");
  make_sources_absolute(spec, "valid_data_path");
  if (text_at(spec, "init_from") == "scratch") spec.erase("init_from");  // nanoGPT's word for the seed's weights
  make_absolute(spec, "init_from", false);
  take_sizes_of_weights(spec);
  const char* const usual_store = std::getenv("HOLDFAST_CHECKPOINT_STORE");
  if (usual_store != nullptr && !spec.contains("checkpoint_store") && text_at(spec, "kind") != "serve")
    spec["checkpoint_store"] = usual_store;
  make_absolute(spec, "checkpoint_store", true);
  make_absolute(spec, "checkpoint_copy", true);
  if (text_at(spec, "resume_from").find('/') != std::string::npos) make_absolute(spec, "resume_from", false);
  return spec;
}

// Unknown names are refused here only when the spec is printed, for then no service is asked.
void refuse_unknown_fields(const Json& spec) {
  std::vector<std::string> known;
  for (const auto& field : rendezvous::job_spec_fields()) known.push_back(field.name);
  std::string all;
  for (const auto& [name, value] : spec.items()) {
    if (std::ranges::find(known, name) != known.end()) continue;
    const std::string nearest = rendezvous::nearest_name(name, known);
    all += fmt::format("\n  {}: no such field; {}", name,
                       nearest.empty() ? "`holdfast help job_spec` lists them all" : fmt::format("did you mean {}?", nearest));
  }
  if (!all.empty()) throw Failure{kBadInput, "this is no job spec:" + all};
}

std::string warning_text(const Json& warning) {
  if (warning.is_string()) return warning.get<std::string>();
  const std::string field = text_at(warning, "field");
  return (field.empty() ? "" : field + ": ") + text_at(warning, "message");
}

// The job as JSON, with the plan that it was made by.
void print_job(Json job, const Json& plan) {
  if (!plan.is_null()) job["plan"] = plan;
  print_json(job);
}

void try_it(const Options& options, Api& api, const Json& spec, const Json& plan) {
  const Json answer = api.post(path_with("/v1/jobs", {{"dry_run", "1"}}), spec);
  if (has(answer, "id")) {
    throw Failure{kUnreachable, fmt::format("this service knows no dry runs and made a job of it: `holdfast stop {}` ends it",
                                            text_at(answer, "id"))};
  }
  if (options.json) return print_job(answer, plan);
  if (!plan.is_null()) fmt::print("{}", plan_text(plan));
  fmt::print("The spec is good; nothing was submitted.\n");
  if (!text_at(answer, "would").empty()) fmt::print("{}\n", text_at(answer, "would"));
  for (const Json& warning : answer.value("warnings", Json::array())) fmt::print("warning: {}\n", warning_text(warning));
}

// For people who look: a script may take all that is written for the job's id.
void warn_of(const Json& job) {
  for (const Json& warning : job.value("warnings", Json::array()))
    fmt::print(stderr, "holdfast: warning: {}\n", warning_text(warning));
}

void tell(const std::vector<std::string>& notes) {
  for (const std::string& note : notes) fmt::print(stderr, "{}\n", note);
}

// `launch`: null where the job's workers are there already.
void watch(const Options& options, const std::string& id, const Json& plan, Launch* launch) {
  WatchOptions how{.from_the_beginning = true};
  if (launch != nullptr) {
    how.on_leave = [launch] { return launch->leave(); };
    how.notes = [launch, &options, &id] {
      const std::string hopeless = launch->hopeless();
      if (hopeless.empty()) return launch->take_notes();
      Api(options).post(fmt::format("/v1/jobs/{}/stop", id));
      launch->end();
      tell(launch->take_notes());
      throw Failure{kJobFailed, fmt::format("{}: {} is stopped", hopeless, id)};
    };
  }
  WatchOutcome outcome;
  try {
    outcome = watch_job(options, id, how);
  } catch (const Failure&) {
    if (launch != nullptr && launch->hopeless().empty()) tell({launch->leave()});
    throw;
  }
  if (launch != nullptr) {
    launch->end();
    tell(launch->take_notes());
  }
  if (options.json) print_job(outcome.job, plan);
  if (outcome.exit_code != kDone) throw Failure{outcome.exit_code, ""};
}

// A job whose workers cannot be started is not left to wait for them.
void start(const Options& options, Launch& launch, const Json& job) {
  try {
    launch.start(job);
  } catch (const Failure& failure) {
    const std::string id = text_at(job, "id");
    Api(options).post(fmt::format("/v1/jobs/{}/stop", id));
    throw Failure{failure.exit_code, fmt::format("{}; {} is stopped", failure.message, id)};
  }
  tell(launch.take_notes());
}

// The workers that are to be started; null where none are. A spec that does not say how many takes as many as the hosts do.
std::unique_ptr<Launch> launch_for(const Options& options, const LaunchFlags& flags, Json& spec) {
  if (!flags.wanted()) return nullptr;
  const int64_t by_hosts = workers_of(flags);
  if (!spec.contains("nodes") && by_hosts > 0) spec["nodes"] = by_hosts;
  const auto nodes = number_at(spec, "nodes");
  return prepare_launch(options, flags, nodes ? static_cast<int64_t>(*nodes) : 1);
}

// `plan`: null without --auto.
void send(const Options& options, const SubmitArguments& arguments, Api& api, const Json& spec, const Json& plan,
          Launch* launch) {
  const Json job = api.post_once("/v1/jobs", spec, arguments.key);
  const bool stays = arguments.watch || (launch != nullptr && launch->needs_company());
  const std::string id = text_at(job, "id");
  if (terminal_width(STDERR_FILENO) > 0) warn_of(job);
  if (!options.json) {
    fmt::print("{}\n", id);
  } else if (!stays) {
    print_job(job, plan);
  }
  std::fflush(stdout);
  if (launch != nullptr) start(options, *launch, job);
  if (stays) watch(options, id, plan, launch);
}

void submit(const Options& options, const SubmitArguments& arguments) {
  Json spec = spec_of(arguments);
  if (arguments.print_config) {
    refuse_unknown_fields(spec);
    return print_json(spec);
  }
  const std::unique_ptr<Launch> launch = launch_for(options, arguments.launch, spec);
  Api api(options);
  PlannedJob job{spec, nullptr};
  if (arguments.automatic.wanted) job = planned(options, api, spec, arguments.automatic, !arguments.dry_run);
  if (arguments.dry_run) return try_it(options, api, job.spec, job.report);
  if (!job.report.is_null() && !options.json) fmt::print(stderr, "{}", plan_text(job.report));
  send(options, arguments, api, job.spec, job.report, launch.get());
}

void add_job_flags(CLI::App& command, SubmitArguments& arguments) {
  for (const auto& field : rendezvous::job_spec_fields()) {
    const std::string flag = "--" + field.name;
    CLI::Option* option =
        field.type == "map"
            ? command.add_option(flag, arguments.pairs[field.name], flag_help_of(field))->allow_extra_args(false)
            : command.add_option_function<std::string>(
                  flag, [&arguments, name = field.name](const std::string& text) { arguments.flags[name] = text; },
                  flag_help_of(field));
    option->type_name(value_name_of(field))->group("Job: " + field.group);
  }
}

}  // namespace

void add_submit_command(CLI::App& app, Options& options) {
  const auto arguments = std::make_shared<SubmitArguments>();
  CLI::App* command = add_command(
      app, options, "submit", "Submit a training job; prints its id",
      "holdfast submit --train_data_path data/train.bin --model tiny --nodes 2 --total_steps 2000 --watch\n"
      "  holdfast submit --train_data_path data/train.bin --nodes 2 --auto\n"
      "  holdfast submit --config job.json --learning_rate 3e-4\n"
      "  holdfast submit --config job.json --nodes 4 --launch slurm --launch_options=\"--partition=gpu --time=1-0\"\n"
      "  holdfast show j1 --spec | holdfast submit --config - --seed 2");
  command->add_option("--config", arguments->config, "Job spec as a JSON file (- for stdin); flags win over it")
      ->type_name("FILE");
  command
      ->add_option(
          "--idempotency_key", arguments->key,
          "However often the same is submitted under one key, and by whomever, it is one job: for scripts that try again")
      ->type_name("KEY");
  auto* watch = command->add_flag("--watch", arguments->watch, "Stay and show the progress; the exit code is the job's");
  auto* dry_run = command->add_flag("--dry_run", arguments->dry_run, "Have the service check the spec, and submit nothing");
  auto* print_config =
      command
          ->add_flag("--print_config", arguments->print_config,
                     "Print what would be sent, from --config and flags, as --config takes it; asks no service")
          ->excludes(watch)
          ->excludes(dry_run);
  dry_run->excludes(watch);
  print_config->excludes(arguments->automatic.add_to(*command));
  arguments->launch.add_to(*command)->excludes(dry_run)->excludes(print_config);
  add_job_flags(*command, *arguments);
  arguments->foreign.add_to(*command);
  command->callback([&options, arguments] { submit(options, *arguments); });
}

}  // namespace holdfast::ops

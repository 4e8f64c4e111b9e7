// `holdfast plan`: what a job would spend on the network, before it is submitted. Flags into the planner's inputs.
//
// The flags of a job are named and checked as `submit` does it. The service is asked only when no speed of a device was given:
// for that, and for whatever else is not given and it knows (POST /v1/plan).
#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <cmath>
#include <thread>
#include <utility>

#include "ops/cli/command/api.h"
#include "ops/cli/command/command.h"
#include "ops/cli/jobs/spec_flags.h"
#include "ops/cli/plan/measure.h"
#include "ops/cli/plan/memory_text.h"
#include "ops/cli/plan/report_text.h"
#include "rendezvous/plan/fit.h"
#include "rendezvous/plan/settings.h"
#include "rendezvous/protocol/job_spec.h"

namespace holdfast::ops {
namespace {

constexpr const char* kPlanExample =
    "holdfast plan --model tiny --nodes 2 --batch_size 16 --gradient_accumulation_steps 8 --microbatch_s 0.03 --link_gbit_s 1";
constexpr const char* kJobFields[] = {
    "model",    "n_layer", "n_embd",    "n_head",    "vocab_size", "block_size", "batch_size", "gradient_accumulation_steps",
    "nodes",    "dtype",   "recompute", "reduction", "wire_dtype", "overlap",    "sync_every", "shard",
    "replicas", "offload", "min_nodes", "tied_head", "dropout"};
constexpr double kMeasureSeconds = 5;
constexpr double kGib = 1 << 30;
constexpr double kLargest = 1e9;  // of any quantity: beyond it is a slip of the keyboard

struct PlanArguments {
  Json job = Json::object({{"train_data_path", "not read"}});  // fields of the spec, as typed
  std::optional<double> microbatch_s, device_tokens_per_s, link_gbit_s, link_mb_s;
  int64_t workers_per_node = 1;
  double update_s = 0, rtt_ms = rendezvous::kUsualRoundTripS * 1000;
  std::optional<double> device_memory_gib, memory_gib;
  std::vector<std::string> keep;
  bool measure = false, memory = false;
  int threads = static_cast<int>(std::clamp(std::thread::hardware_concurrency(), 1U, 16U));
};

rendezvous::JobSpec spec_of(const PlanArguments& arguments) {
  const auto spec = rendezvous::parse_job_spec(arguments.job);
  if (spec) return *spec;
  std::string all;
  for (const auto& error : spec.error()) all += fmt::format("{}{}: {}", all.empty() ? "" : "; ", error.field, error.message);
  throw Failure{kBadInput, all};
}

double in_range(const char* flag, double value, bool zero_too = false) {
  if (std::isfinite(value) && value <= kLargest && (value > 0 || (zero_too && value == 0))) return value;
  throw Failure{kBadInput, fmt::format("{}: {} is out of range: expected a number {} 0, at most {:.0e}", flag, value,
                                       zero_too ? "from" : "above", kLargest)};
}

// The shard that stands for auto with workers of the memory that is given, as the service chooses it. Nothing: it is not auto.
std::optional<rendezvous::ShardChoice> chosen_shard(const PlanArguments& arguments, const rendezvous::JobSpec& spec) {
  if (spec.shard != "auto" && arguments.memory_gib) {
    throw Failure{
        kBadInput,
        fmt::format("--memory_gib: is for --shard auto, and shard is {}: expected --shard auto, or leave it out", spec.shard)};
  }
  if (spec.shard != "auto") return std::nullopt;
  rendezvous::WorkerMemory worker{.name = "a worker"};
  worker.on_host = !arguments.device_memory_gib;
  if (arguments.device_memory_gib) worker.gpu = *arguments.device_memory_gib * kGib;
  if (arguments.memory_gib) worker.host = *arguments.memory_gib * kGib;
  if (worker.gpu == 0 && worker.host == 0) {
    throw Failure{kBadInput,
                  "shard: auto chooses by memory, and none is given: expected --device_memory_gib (of a GPU) or "
                  "--memory_gib (of a worker on a CPU), or shard none, optimizer, gradients or parameters"};
  }
  return rendezvous::choose_shard(spec, {&worker, 1});
}

// A plan in the making: what is known of it, and where it is from.
struct Draft {
  rendezvous::PlanInputs inputs;
  rendezvous::PlanSources sources;
};

void take_link(const PlanArguments& arguments, Draft& draft) {
  draft.inputs.round_trip_s = in_range("--rtt_ms", arguments.rtt_ms, true) / 1000;
  draft.sources.link_known = arguments.link_mb_s || arguments.link_gbit_s;
  if (arguments.link_mb_s) {
    draft.inputs.link_bytes_per_s = in_range("--link_mb_s", *arguments.link_mb_s) * 1e6;
    draft.sources.link = "given";
    return;
  }
  const auto named =
      rendezvous::nominal_link(in_range("--link_gbit_s", arguments.link_gbit_s.value_or(rendezvous::kUsualGbitS)));
  draft.inputs.link_bytes_per_s = named.bytes_per_s;
  draft.sources.link = named.source;
}

// False: nothing was given to go by.
bool take_speed(const PlanArguments& arguments, const rendezvous::JobSpec& spec, Draft& draft) {
  DeviceSpeed speed{0, "given"};
  if (arguments.microbatch_s) {
    speed.microbatch_s = in_range("--microbatch_s", *arguments.microbatch_s);
  } else if (arguments.device_tokens_per_s) {
    const double rate = in_range("--device_tokens_per_s", *arguments.device_tokens_per_s);
    speed.microbatch_s = static_cast<double>(spec.batch_size * spec.block_size) / rate;
  } else if (arguments.measure) {
    speed = measured_here(spec, arguments.threads, kMeasureSeconds);
  } else {
    return false;
  }
  draft.inputs.microbatch_s = speed.microbatch_s;
  draft.sources.speed = std::move(speed.source);
  return true;
}

Json plan_of_service(const Options& options, const PlanArguments& arguments) {
  Json body = {{"spec", arguments.job}, {"rtt_ms", arguments.rtt_ms}};
  body["spec"].erase("train_data_path");
  if (arguments.device_memory_gib) body["device_memory_gib"] = *arguments.device_memory_gib;
  try {
    return Api(options).post("/v1/plan", body);
  } catch (const Failure& failure) {
    throw Failure{kBadInput,
                  fmt::format("how fast is a device? {}. Give --device_tokens_per_s or --microbatch_s, or --measure to "
                              "try it on this machine's processors",
                              failure.message)};
  }
}

// The speed as the service knows it, and the link and the memory where they were not given.
void take_from_service(const Options& options, const PlanArguments& arguments, Draft& draft) {
  const Json known = plan_of_service(options, arguments);
  draft.inputs.microbatch_s = number_at(known, "microbatch_s").value_or(0);
  draft.sources.speed = text_at(known, "device_source");
  if (!draft.sources.link_known && known.value("link_known", false)) {
    draft.inputs.link_bytes_per_s = number_at(known, "link_bytes_per_s").value_or(draft.inputs.link_bytes_per_s);
    draft.sources.link = text_at(known, "link_source");
    draft.sources.link_known = true;
  }
  if (arguments.device_memory_gib) return;
  draft.inputs.device_memory = number_at(known, "device_memory_bytes").value_or(0);
  draft.sources.memory = text_at(known, "memory_source");
}

void plan(const Options& options, const PlanArguments& arguments) {
  rendezvous::JobSpec spec = spec_of(arguments);
  if (arguments.memory_gib) in_range("--memory_gib", *arguments.memory_gib);
  if (arguments.device_memory_gib) in_range("--device_memory_gib", *arguments.device_memory_gib);
  if (const auto chosen = chosen_shard(arguments, spec)) {
    spec.shard = chosen->shard;
    if (!options.json) fmt::print("--shard auto is {} here: {}.\n\n", chosen->shard, chosen->why);
  }
  Draft draft{rendezvous::inputs_of(spec, arguments.job), {}};
  draft.inputs.workers_per_node = arguments.workers_per_node;
  draft.inputs.update_s = in_range("--update_s", arguments.update_s, true);
  if (arguments.device_memory_gib) {
    draft.inputs.device_memory = *arguments.device_memory_gib * kGib;
    draft.sources.memory = "given";
  }
  if (arguments.memory) return print_memory(options, draft.inputs);
  take_link(arguments, draft);
  if (!take_speed(arguments, spec, draft)) take_from_service(options, arguments, draft);
  const rendezvous::Allowed allowed = rendezvous::taken_by_rules(spec, arguments.job, draft.inputs);
  const auto report =
      rendezvous::plan_report(draft.inputs, draft.sources, allowed, rendezvous::leaving(allowed, arguments.keep, draft.inputs));
  if (options.json) return print_json(rendezvous::json_of(report));
  fmt::print("{}", text_of(report));
}

void add_job_flags(CLI::App& command, PlanArguments& arguments) {
  for (const auto& field : rendezvous::job_spec_fields()) {
    if (std::ranges::find(kJobFields, field.name) == std::end(kJobFields)) continue;
    const std::string flag = "--" + field.name;
    const auto take = [&](auto add) { add->type_name(value_name_of(field))->group("Job"); };
    if (field.type == "integer") {
      take(command.add_option_function<int64_t>(
          flag, [&arguments, name = field.name](int64_t number) { arguments.job[name] = number; }, flag_help_of(field)));
    } else {
      take(command.add_option_function<std::string>(
          flag, [&arguments, &field](const std::string& text) { arguments.job[field.name] = typed_value(field, text); },
          flag_help_of(field)));
    }
  }
}

void add_device_flags(CLI::App& command, PlanArguments& arguments) {
  auto* seconds = command.add_option("--microbatch_s,--step_s", arguments.microbatch_s,
                                     "Seconds a device takes for a microbatch, forward and backward");
  auto* rate = command.add_option("--device_tokens_per_s", arguments.device_tokens_per_s, "The same as tokens a second");
  auto* measure = command.add_flag("--measure", arguments.measure, "The same measured on this machine's processors");
  seconds->type_name("NUMBER")
      ->group("Device: the newest job of this model tells, where none is given")
      ->excludes(rate)
      ->excludes(measure);
  rate->type_name("NUMBER")->group(seconds->get_group())->excludes(measure);
  measure->group(seconds->get_group());
  command.add_option("--threads", arguments.threads, "Threads to measure with")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str()
      ->group(seconds->get_group());
  command
      .add_option("--device_memory_gib", arguments.device_memory_gib,
                  "Memory of the smallest device: no settings that need more")
      ->type_name("NUMBER")
      ->group(seconds->get_group());
  command
      .add_option("--memory_gib", arguments.memory_gib,
                  "What the smallest worker may take of its host's memory, for --shard auto")
      ->type_name("NUMBER")
      ->group(seconds->get_group());
  command.add_option("--update_s", arguments.update_s, "Seconds an optimizer step takes beside its microbatches")
      ->capture_default_str()
      ->group(seconds->get_group());
}

void add_link_flags(CLI::App& command, PlanArguments& arguments) {
  auto* nominal = command.add_option("--link_gbit_s", arguments.link_gbit_s, "What the network is called [1]");
  auto* measured = command.add_option("--link_mb_s", arguments.link_mb_s,
                                      "Megabytes a second it carries each way with both directions busy, from netcheck");
  nominal->type_name("NUMBER")->group("Link")->excludes(measured);
  measured->type_name("NUMBER")->group("Link");
  command
      .add_option("--workers_per_node", arguments.workers_per_node,
                  "So many of the job's --nodes workers are on each machine, and share its link")
      ->check(CLI::Range(1, 1024))
      ->type_name("N")
      ->capture_default_str()
      ->group("Link");
  command.add_option("--rtt_ms", arguments.rtt_ms, "Milliseconds of a round trip, from netcheck")
      ->capture_default_str()
      ->group("Link");
}

}  // namespace

void add_plan_command(CLI::App& app, Options& options) {
  const auto arguments = std::make_shared<PlanArguments>();
  CLI::App* command =
      add_command(app, options, "plan", "What a job would spend on the network, and settings that spend less", kPlanExample);
  add_job_flags(*command, *arguments);
  add_device_flags(*command, *arguments);
  add_link_flags(*command, *arguments);
  command
      ->add_option("--keep", arguments->keep,
                   "Fields that the same training is to leave as they are, such as batch_size,overlap")
      ->delimiter(',')
      ->type_name("FIELD")
      ->group("Job");
  command->add_flag("--memory", arguments->memory, "What a worker holds, by part, and what would lower it; nothing else");
  add_wide_flag(*command, options);
  command->callback([&options, arguments] { plan(options, *arguments); });
}

}  // namespace holdfast::ops

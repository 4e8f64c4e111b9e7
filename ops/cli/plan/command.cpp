// `holdfast plan`: what a job would spend on the network, before it is submitted. Flags into the planner's inputs.
//
// The flags of a job are named and checked as `submit` does it. The service is asked only for the speed of a device, and only
// when none was given.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <thread>

#include "ops/cli/command/api.h"
#include "ops/cli/command/command.h"
#include "ops/cli/jobs/spec_flags.h"
#include "ops/cli/plan/report.h"
#include "ops/cli/plan/speed.h"
#include "rendezvous/protocol/job_spec.h"

namespace holdfast::ops {
namespace {

constexpr const char* kPlanExample =
    "holdfast plan --model tiny --nodes 2 --batch_size 16 --gradient_accumulation_steps 8 --microbatch_s 0.03 --link_gbit_s 1";
constexpr const char* kJobFields[] = {
    "model", "n_layer", "n_embd",    "n_head",    "vocab_size", "block_size", "batch_size", "gradient_accumulation_steps",
    "nodes", "dtype",   "recompute", "reduction", "wire_dtype", "overlap",    "sync_every"};
constexpr double kMeasureSeconds = 5;
constexpr double kGib = 1 << 30;
constexpr double kLargest = 1e9;  // of any quantity: beyond it is a slip of the keyboard

struct PlanArguments {
  Json job = Json::object({{"train_data_path", "not read"}});  // fields of the spec, as typed
  std::optional<double> microbatch_s, device_tokens_per_s, link_gbit_s, link_mb_s;
  double update_s = 0, rtt_ms = 0.2;
  std::optional<double> device_memory_gib;
  bool measure = false;
  int threads = static_cast<int>(std::clamp(std::thread::hardware_concurrency(), 1U, 16U));
};

rendezvous::JobSpec spec_of(const PlanArguments& arguments) {
  const auto spec = rendezvous::parse_job_spec(arguments.job);
  if (spec) return *spec;
  std::string all;
  for (const auto& error : spec.error()) all += fmt::format("{}{}: {}", all.empty() ? "" : "; ", error.field, error.message);
  throw Failure{kBadInput, all};
}

// Whether the spec's rules take the job with these settings in place of its own.
bool may_be_submitted(Json job, const PlanInputs& settings) {
  job["batch_size"] = settings.batch_size;
  job["overlap"] = overlap_word(settings);
  job["recompute"] = recompute_word(settings.recompute);
  job["gradient_accumulation_steps"] = settings.accumulation;
  job["reduction"] = settings.wire.reduction;
  job["wire_dtype"] = settings.wire.name;
  job["sync_every"] = settings.sync_every;
  return rendezvous::parse_job_spec(job).has_value();
}

double in_range(const char* flag, double value, bool zero_too = false) {
  if (std::isfinite(value) && value <= kLargest && (value > 0 || (zero_too && value == 0))) return value;
  throw Failure{kBadInput, fmt::format("{}: {} is out of range: expected a number {} 0, at most {:.0e}", flag, value,
                                       zero_too ? "from" : "above", kLargest)};
}

DeviceSpeed speed_of(const Options& options, const PlanArguments& arguments, const rendezvous::JobSpec& spec) {
  if (arguments.microbatch_s) return {in_range("--microbatch_s", *arguments.microbatch_s), "given"};
  if (arguments.device_tokens_per_s) {
    const double rate = in_range("--device_tokens_per_s", *arguments.device_tokens_per_s);
    return {static_cast<double>(spec.batch_size * spec.block_size) / rate, "given"};
  }
  if (arguments.measure) return measured_here(spec, arguments.threads, kMeasureSeconds);
  auto found = speed_of_jobs(options, spec);
  if (found) return *std::move(found);
  throw Failure{kBadInput,
                fmt::format("how fast is a device? {}. Give --device_tokens_per_s or --microbatch_s, or --measure to "
                            "try it on this machine's processors",
                            found.error())};
}

struct Link {
  double bytes_per_s;
  std::string source;
};

Link link_of(const PlanArguments& arguments) {
  if (arguments.link_mb_s) return {in_range("--link_mb_s", *arguments.link_mb_s) * 1e6, "given"};
  const double gbit_s = in_range("--link_gbit_s", arguments.link_gbit_s.value_or(1));
  return {
      nominal_link_rate(gbit_s),
      fmt::format("{:.4g} Gbit/s, of which TCP in frames of 1,500 bytes carries {} at most; `holdfast netcheck` measures it",
                  gbit_s, kLineRateShare)};
}

void plan(const Options& options, const PlanArguments& arguments) {
  const rendezvous::JobSpec spec = spec_of(arguments);
  PlanInputs inputs;
  inputs.model = {spec.n_layer, spec.n_embd, spec.n_head, spec.vocab_size, spec.block_size};
  inputs.nodes = spec.nodes;
  inputs.batch_size = spec.batch_size;
  inputs.accumulation = spec.gradient_accumulation_steps;
  inputs.sync_every = spec.sync_every;
  inputs.wire = *rendezvous::find_wire_type(spec.wire_dtype);  // parsing has checked the name
  inputs.overlap = spec.overlap == "on";
  inputs.recompute = *model::recompute_of(spec.recompute);
  inputs.activation_bytes = spec.dtype == "float32" ? 4 : 2;
  if (arguments.device_memory_gib) inputs.device_memory = in_range("--device_memory_gib", *arguments.device_memory_gib) * kGib;
  inputs.update_s = in_range("--update_s", arguments.update_s, true);
  inputs.round_trip_s = in_range("--rtt_ms", arguments.rtt_ms, true) / 1000;
  const Link link = link_of(arguments);
  inputs.link_bytes_per_s = link.bytes_per_s;
  const DeviceSpeed speed = speed_of(options, arguments, spec);
  inputs.microbatch_s = speed.microbatch_s;
  const PlanReport report = plan_report(inputs, speed.source, link.source,
                                        [&](const PlanInputs& settings) { return may_be_submitted(arguments.job, settings); });
  if (options.json) return print_json(json_of(report));
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
          flag, [&arguments, name = field.name](const std::string& text) { arguments.job[name] = text; }, flag_help_of(field)));
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
  command->callback([&options, arguments] { plan(options, *arguments); });
}

}  // namespace holdfast::ops

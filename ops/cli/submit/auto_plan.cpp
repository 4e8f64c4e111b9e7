#include "ops/cli/submit/auto_plan.h"

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "ops/cli/jobs/plan_text.h"
#include "ops/cli/submit/trial.h"
#include "rendezvous/protocol/job_spec_fields.h"

namespace holdfast::ops {
namespace {

constexpr const char* kGive = "give --microbatch_s (and --link_mb_s, from `holdfast netcheck`), or submit without --auto";

// Fields of the spec are kept as given. A field that there is not is left to the check of the spec, which names it.
Json request_of(const Json& spec, const AutoFlags& flags) {
  Json request = {{"spec", spec}, {"keep", Json::array()}};
  for (const rendezvous::FieldRow& row : rendezvous::job_spec_table()) {
    if (spec.contains(row.name)) request["keep"].push_back(row.name);
  }
  const auto add = [&](const char* name, const std::optional<double>& value) {
    if (value) request[name] = *value;
  };
  add("microbatch_s", flags.microbatch_s);
  add("link_mb_s", flags.link_mb_s);
  add("rtt_ms", flags.rtt_ms);
  add("device_memory_gib", flags.device_memory_gib);
  return request;
}

// Nothing where neither the request nor the service says how fast a device is.
std::optional<Json> ask(Api& api, const Json& request) {
  return patiently([&]() -> std::optional<Json> {
    const auto reply = api.client().request("POST", "/v1/plan", rendezvous::json_text(request));
    if (reply) {
      Json report = Json::parse(reply->body, nullptr, false);
      if (report.is_object()) return report;
      throw Failure{kUnreachable,
                    fmt::format("{} did not answer as a Holdfast service does: is --server right?", api.client().base_url())};
    }
    const auto& problem = reply.error().problem;
    if (problem.code == "speed_unknown") return std::nullopt;
    if (problem.status == 404 || problem.status == 405)
      throw Failure{kBadInput, "--auto: this service does not plan, it is of an older release: submit without --auto"};
    throw failure_of(reply.error());
  });
}

// A job that begins with another's weights has its sizes, which a trial begins without.
Json with_named_sizes(Api& api, Json spec) {
  if (!text_at(spec, "init_from").starts_with("job:")) return spec;
  const Json resolved = api.post(path_with("/v1/jobs", {{"dry_run", "1"}}), spec).value("spec", Json::object());
  for (const char* size : {"n_layer", "n_embd", "n_head", "vocab_size", "block_size", "tied_head"}) {
    if (resolved.contains(size)) spec[size] = resolved[size];
  }
  return spec;
}

// The report after a trial. Without one, that of a link that is taken by its name.
Json learnt(const Options& options, Api& api, const Json& spec, const Json& request, std::optional<Json> report) {
  const Json trial = trial_spec(with_named_sizes(api, spec));
  const int64_t free = workers_for(api, trial);
  if (free < kTrialWorkers && !report) {
    throw Failure{
        kBadInput,
        fmt::format("--auto has nothing to go by: no job here tells how fast this model is, and a trial needs {} free "
                    "workers where {} {}. Wait for them, {}",
                    kTrialWorkers, free, free == 1 ? "is" : "are", kGive)};
  }
  if (free < kTrialWorkers) {
    fmt::print(stderr, "the link is not measured, and no {} workers are free for a trial: 1 Gbit/s is taken for it\n",
               kTrialWorkers);
    return *std::move(report);
  }
  run_trial(options, api, trial);
  report = ask(api, request);
  if (!report) throw Failure{kJobFailed, fmt::format("--auto: the trial did not tell how fast a device is: {}", kGive)};
  return *std::move(report);
}

}  // namespace

CLI::Option* AutoFlags::add_to(CLI::App& command) {
  constexpr const char* kGroup = "With --auto: what is known better than a trial finds it";
  auto* automatic = command.add_flag("--auto", this->wanted,
                                     "Plan first, by a short trial where no speed is known, and take the settings that train "
                                     "the same and lose least to the network");
  const auto add = [&](const char* flag, std::optional<double>& value, const char* help) {
    command.add_option(flag, value, help)->type_name("NUMBER")->group(kGroup)->needs(automatic);
  };
  add("--microbatch_s", microbatch_s, "Seconds a device takes for a microbatch, forward and backward");
  add("--link_mb_s", link_mb_s, "Megabytes a second the link carries each way, from netcheck");
  add("--rtt_ms", rtt_ms, "Milliseconds of a round trip [0.2]");
  add("--device_memory_gib", device_memory_gib, "Memory of the smallest device [what its worker says]");
  return automatic;
}

PlannedJob planned(const Options& options, Api& api, const Json& spec, const AutoFlags& flags, bool tries) {
  const Json nodes = spec.value("nodes", Json(1));
  if (nodes == 1) return {spec, {{"nodes", 1}, {"verdict", "One node: nothing is on the link, and the job stays as it is."}}};
  const Json request = request_of(spec, flags);
  std::optional<Json> report = ask(api, request);
  const bool known = report && report->value("link_known", false);
  if (!known && tries) report = learnt(options, api, spec, request, std::move(report));
  if (!report) {
    throw Failure{kBadInput, fmt::format("--auto has nothing to go by: no job here tells how fast this model is, and a dry run "
                                         "makes no trial. Leave --dry_run away, or {}",
                                         kGive)};
  }
  Json taken = spec;
  taken.update((*report)["same_training"]["changes"]);
  return {std::move(taken), *std::move(report)};
}

std::string plan_text(const Json& report) {
  if (integer_at(report, "nodes") == 1) return text_at(report, "verdict") + "\n";
  const std::string flags = text_at(report["same_training"], "flags");
  return plan_comparison(report) + "\n" + plan_sources(report) +
         (flags.empty() ? "taken   nothing: the settings stay as asked\n" : fmt::format("taken   {}\n", flags)) + "\n";
}

}  // namespace holdfast::ops

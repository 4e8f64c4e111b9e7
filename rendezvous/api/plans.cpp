#include "rendezvous/api/plans.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "rendezvous/api/answers/answers.h"
#include "rendezvous/api/answers/problems.h"
#include "rendezvous/plan/report.h"
#include "rendezvous/plan/settings.h"
#include "rendezvous/protocol/job_spec_fields.h"
#include "rendezvous/queries/initial_weights.h"
#include "rendezvous/queries/known_speed.h"

namespace holdfast::rendezvous {
namespace {

using Json = nlohmann::json;

constexpr double kLargest = 1e9;  // of any quantity: beyond it is a slip of the keyboard
constexpr double kGib = 1 << 30;

struct PlanRequest {
  Json given;  // fields of the spec, as they were sent
  JobSpec spec;
  std::vector<std::string> keep;
  std::optional<double> microbatch_s, device_tokens_per_s, link_mb_s, link_gbit_s, device_memory_gib;
  double rtt_ms = kUsualRoundTripS * 1000, update_s = 0;
};

struct Number {
  const char* name;
  std::optional<double> PlanRequest::*member;
};
constexpr Number kNumbers[] = {{"microbatch_s", &PlanRequest::microbatch_s},
                               {"device_tokens_per_s", &PlanRequest::device_tokens_per_s},
                               {"link_mb_s", &PlanRequest::link_mb_s},
                               {"link_gbit_s", &PlanRequest::link_gbit_s},
                               {"device_memory_gib", &PlanRequest::device_memory_gib}};
struct NumberFromZero {
  const char* name;
  double PlanRequest::*member;
};
constexpr NumberFromZero kNumbersFromZero[] = {{"rtt_ms", &PlanRequest::rtt_ms}, {"update_s", &PlanRequest::update_s}};
// Each says the same in two ways.
constexpr std::pair<const char*, const char*> kEither[] = {{"microbatch_s", "device_tokens_per_s"},
                                                           {"link_mb_s", "link_gbit_s"}};

std::optional<double> number_in(const std::string& name, const Json& value, bool zero_too, std::vector<FieldError>& errors) {
  const double number = value.is_number() ? value.get<double>() : -1;
  if (number <= kLargest && (number > 0 || (zero_too && number == 0))) return number;
  errors.push_back({name, fmt::format("must be a number {} 0, at most {:.0e}, not {}", zero_too ? "from" : "above", kLargest,
                                      json_text(value).substr(0, 40))});
  return std::nullopt;
}

void read_keep(const Json& value, PlanRequest& request, std::vector<FieldError>& errors) {
  const bool names = value.is_array() && std::ranges::all_of(value, [](const Json& name) { return name.is_string(); });
  if (!names) return errors.push_back({"keep", R"(must be a list of fields of the job spec, such as ["batch_size"])"});
  if (value.size() > job_spec_table().size())
    return errors.push_back({"keep", fmt::format("has {} names, and a job spec has {} fields: name each once", value.size(),
                                                 job_spec_table().size())});
  for (const Json& name : value) {
    const auto same = [&](const FieldRow& row) { return row.name == name.get_ref<const std::string&>(); };
    if (std::ranges::any_of(job_spec_table(), same)) {
      request.keep.push_back(name.get<std::string>());
    } else {
      errors.push_back(
          {"keep", fmt::format("{} is no field of the job spec: GET /v1/job_spec lists them", json_text(name).substr(0, 60))});
    }
  }
}

void read_member(const std::string& name, const Json& value, PlanRequest& request, std::vector<FieldError>& errors) {
  if (name == "spec") {
    request.given = value;
    return;
  }
  if (name == "keep") return read_keep(value, request, errors);
  for (const auto& [known, member] : kNumbers) {
    if (name != known) continue;
    request.*member = number_in(name, value, false, errors);
    return;
  }
  for (const auto& [known, member] : kNumbersFromZero) {
    if (name != known) continue;
    request.*member = number_in(name, value, true, errors).value_or(0);
    return;
  }
  errors.push_back({name.substr(0, 64),
                    "no such field; there are spec, keep, microbatch_s, device_tokens_per_s, link_mb_s, "
                    "link_gbit_s, rtt_ms, update_s and device_memory_gib"});
}

// The spec need not say what to train on.
void read_spec(PlanRequest& request, std::vector<FieldError>& errors) {
  if (!request.given.is_object()) {
    errors.push_back({"spec", R"(must be an object with fields of a job spec, such as {"model": "tiny", "nodes": 2})"});
    return;
  }
  if (request.given.contains("kind") && request.given["kind"] != "train") {
    errors.push_back({"kind", fmt::format("{}: a plan is of a job that trains; leave it out",
                                          json_text(request.given["kind"]).substr(0, 40))});
    return;
  }
  if (!request.given.contains("train_data_path")) request.given["train_data_path"] = "not read";
  auto spec = parse_job_spec(request.given);
  if (spec) {
    request.spec = *std::move(spec);
    return;
  }
  for (FieldError& error : spec.error()) errors.push_back(std::move(error));
}

Outcome<PlanRequest> read_plan_request(const Coordinator& state, const HttpRequest& http) {
  const auto body = read_json(http);
  if (!body) return tl::unexpected(body.error());
  if (!body->is_object()) return tl::unexpected(bad_field("", R"(a plan is asked for with an object, such as {"spec": {}})"));
  PlanRequest request;
  std::vector<FieldError> errors;
  for (const auto& [name, value] : body->items()) read_member(name, value, request, errors);
  for (const auto& [one, other] : kEither) {
    if (body->contains(one) && body->contains(other))
      errors.push_back({other, fmt::format("is given together with {}, and both say the same: leave one out", one)});
  }
  request.given = with_sizes_of_named_job(state, request.given);
  read_spec(request, errors);
  if (!errors.empty()) return tl::unexpected(invalid_spec(std::move(errors)));
  return request;
}

Known speed_of(const PlanRequest& request, const KnownSpeed& known) {
  if (request.microbatch_s) return {*request.microbatch_s, "given"};
  if (!request.device_tokens_per_s) return known.microbatch_s;
  const auto tokens = static_cast<double>(request.spec.batch_size * request.spec.block_size);
  return {tokens / *request.device_tokens_per_s, "given"};
}

Known link_of(const PlanRequest& request, const KnownSpeed& known) {
  if (request.link_mb_s) return {*request.link_mb_s * 1e6, "given"};
  const bool measured = !request.link_gbit_s && known.link_bytes_per_s.value > 0;
  if (measured) return known.link_bytes_per_s;
  NominalLink named = nominal_link(request.link_gbit_s.value_or(kUsualGbitS));
  return {named.bytes_per_s, std::move(named.source)};
}

// Memory that is only guessed at does not make settings too large that were asked for.
Known memory_of(const PlanRequest& request, const Coordinator& state, const PlanInputs& inputs) {
  if (request.device_memory_gib) return {*request.device_memory_gib * kGib, "given"};
  Known smallest = smallest_memory(state, request.spec.requirements);
  if (smallest.is_a_share) smallest.value = std::max(smallest.value, figures_of(inputs).memory);
  return smallest;
}

Problem speed_unknown(const JobSpec& spec) {
  Problem unknown = problem(
      422, "speed_unknown",
      fmt::format("no job here has trained this model with block_size {}, dtype {} and recompute {} on devices like those that "
                  "are there, so it is not known how fast one is: give microbatch_s (seconds for a microbatch, forward and "
                  "backward) or device_tokens_per_s, or train a few steps first, as `holdfast submit --auto` does",
                  spec.block_size, spec.dtype, spec.recompute));
  unknown.title = "Not known";
  return unknown;
}

}  // namespace

void PlansApi::post_plan(Call& call) {
  const auto request = read_plan_request(state_, call.request);
  if (!request) return call.answer(request.error());
  PlanInputs inputs = inputs_of(request->spec, request->given);
  inputs.update_s = request->update_s;
  inputs.round_trip_s = request->rtt_ms / 1000;
  const KnownSpeed known = known_speed(state_, request->spec, inputs.round_trip_s);
  const Known speed = speed_of(*request, known), link = link_of(*request, known);
  if (speed.value <= 0) return call.answer(speed_unknown(request->spec));
  inputs.microbatch_s = speed.value;
  inputs.link_bytes_per_s = link.value;
  const Known memory = memory_of(*request, state_, inputs);
  inputs.device_memory = memory.value;
  const bool link_known = request->link_mb_s || request->link_gbit_s || known.link_bytes_per_s.value > 0;
  const Allowed allowed = taken_by_rules(request->spec, request->given, inputs);
  const PlanReport report = plan_report(inputs, {speed.source, link.source, memory.source, link_known}, allowed,
                                        leaving(allowed, request->keep, inputs));
  call.answer(json_answer(200, json_of(report)));
}

}  // namespace holdfast::rendezvous

#include "rendezvous/plan/settings.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>
#include <variant>

#include "rendezvous/protocol/job_spec_fields.h"

namespace holdfast::rendezvous {
namespace {

using Json = nlohmann::json;

// Of a number for which 0 stands for a default that follows from other fields.
bool is_given(const Json& given, const char* field) {
  return given.contains(field) && given[field] != 0;
}

int64_t microbatches_of_a_node(const JobSpec& spec) {
  const int64_t microbatches = spec.microbatches() / spec.sync_every;
  return (microbatches + spec.nodes - 1) / spec.nodes;
}

// Takes back the defaults that follow from the settings: with others they are others.
void forget_derived(JobSpec& spec, const Json& given) {
  if (!is_given(given, "global_batch_size")) spec.global_batch_size = 0;
  if (!is_given(given, "max_nodes")) spec.max_nodes = 0;
}

void set(JobSpec& spec, const PlanInputs& settings, const PlanInputs& asked) {
  const int64_t sequences = settings.accumulation * settings.batch_size;
  if (!settings.by_global_batch) {
    spec.gradient_accumulation_steps = settings.accumulation;
  } else if (sequences != asked.accumulation * asked.batch_size) {
    spec.global_batch_size = settings.workers * sequences;
  }
  spec.batch_size = settings.batch_size;
  spec.sync_every = settings.sync_every;
  spec.reduction = settings.wire.reduction;
  spec.wire_dtype = settings.wire.name;
  spec.overlap = overlap_word(settings);
  spec.recompute = recompute_word(settings.recompute);
}

bool in_range(const ChangedField& changed) {
  const auto* number = std::get_if<int64_t>(&changed.second);
  if (number == nullptr) return true;
  const std::string_view name = changed.first;
  const auto row = std::ranges::find_if(job_spec_table(), [&](const FieldRow& each) { return each.name == name; });
  const auto& bounds = std::get<IntegerField>(row->kind);
  return bounds.min <= *number && *number <= bounds.max;
}

}  // namespace

PlanInputs inputs_of(const JobSpec& spec, const Json& given) {
  PlanInputs inputs;
  inputs.model = {spec.n_layer, spec.n_embd, spec.n_head, spec.vocab_size, spec.block_size, spec.tied_head == "on"};
  inputs.workers = spec.nodes;
  inputs.batch_size = spec.batch_size;
  inputs.accumulation = microbatches_of_a_node(spec);
  inputs.by_global_batch = is_given(given, "global_batch_size");
  inputs.sync_every = spec.sync_every;
  inputs.wire = *find_wire_type(spec.wire_dtype);  // parsing has checked the name
  inputs.overlap = spec.overlap == "on";
  inputs.replicas = spec.shard == "none" || spec.shard == "auto" ? 0 : spec.replicas;
  inputs.offloads = spec.offload == "optimizer";
  inputs.scatters_gradients = spec.divides_gradients();
  inputs.scatters_parameters = spec.divides_parameters();
  inputs.recompute = *model::recompute_of(spec.recompute);
  inputs.activation_bytes = spec.dtype == "float32" ? 4 : 2;
  return inputs;
}

// With microbatches that do not divide over the nodes, settings are allowed only where the node with the most has as many
// tokens as before.
Allowed taken_by_rules(JobSpec spec, const Json& given, const PlanInputs& asked) {
  forget_derived(spec, given);
  return [spec = std::move(spec), asked](const PlanInputs& settings) {
    JobSpec tried = spec;
    set(tried, settings, asked);
    return std::ranges::all_of(changed_fields(settings, asked), in_range) && broken_rules(tried, {}).empty() &&
           microbatches_of_a_node(tried) == settings.accumulation;
  };
}

Allowed leaving(Allowed allowed, std::vector<std::string> keep, const PlanInputs& asked) {
  return [allowed = std::move(allowed), keep = std::move(keep), asked](const PlanInputs& settings) {
    const auto kept = [&](const ChangedField& changed) { return std::ranges::find(keep, changed.first) != keep.end(); };
    return std::ranges::none_of(changed_fields(settings, asked), kept) && allowed(settings);
  };
}

}  // namespace holdfast::rendezvous

// The job spec from JSON and back, by a walk over the table of fields.
//
// First every field is checked by itself, then defaults that depend on other fields are filled in, then the rules between
// fields are checked.
#include "rendezvous/protocol/job_spec.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <stdexcept>
#include <string_view>
#include <utility>

#include "rendezvous/protocol/foreign_names.h"
#include "rendezvous/protocol/job_spec_fields.h"
#include "rendezvous/protocol/labels.h"
#include "rendezvous/protocol/messages.h"
#include "rendezvous/protocol/wire_types.h"
#include "rendezvous/text/nearest_name.h"

namespace holdfast::rendezvous {
namespace {

using Json = nlohmann::json;
using Errors = std::vector<FieldError>;
using Complaint = std::string;  // "": the value is right

std::string shown(const Json& value) {
  std::string text = json_text(value);
  return text.size() > 60 ? text.substr(0, 60) + "…" : text;
}

// Stored specs are read with this function again, so it must not refuse more than it did when they were submitted.
bool has_low_controls(const std::string& text) {
  return std::ranges::any_of(text, [](unsigned char c) { return c < 0x20 || c == 0x7f; });
}

bool contains(const std::vector<std::string>& words, const std::string& word) {
  return std::ranges::find(words, word) != words.end();
}

Complaint read(const TextField& field, const FieldRow& row, const Json& value, JobSpec& spec) {
  if (!value.is_string()) return fmt::format("must be a string, not {}", shown(value));
  const auto& text = value.get_ref<const std::string&>();
  if (text.size() > field.max_bytes) return fmt::format("has {} bytes, at most {} are taken", text.size(), field.max_bytes);
  if (has_low_controls(text)) return "has control characters in it";
  // An empty text stands for the default only where the default is empty, as for wire_dtype in a spec that is not resolved.
  const bool left_out = text.empty() && (JobSpec{}.*field.member).empty();
  if (!field.choices.empty() && !left_out && !contains(field.choices, text)) {
    return fmt::format("{} is not one of {}", shown(value), range_text(row));
  }
  spec.*field.member = text;
  return "";
}

Complaint read(const IntegerField& field, const FieldRow& row, const Json& value, JobSpec& spec) {
  const auto out_of_range = [&] { return fmt::format("{} is out of range: {}", shown(value), range_text(row)); };
  int64_t number = 0;
  if (value.is_number_unsigned() && value.get<uint64_t>() > static_cast<uint64_t>(INT64_MAX)) return out_of_range();
  if (value.is_number_integer()) {
    number = value.get<int64_t>();
  } else if (value.is_number_float() && std::nearbyint(value.get<double>()) == value.get<double>()) {
    if (std::abs(value.get<double>()) > 9.0e15) return out_of_range();  // above, a double does not hold every integer
    number = static_cast<int64_t>(value.get<double>());                 // 60.0: some JSON writers have no integers
  } else {
    return fmt::format("must be an integer, not {}", shown(value));
  }
  if (number < field.min || number > field.max) return out_of_range();
  spec.*field.member = number;
  return "";
}

Complaint read(const NumberField& field, const FieldRow& row, const Json& value, JobSpec& spec) {
  if (!value.is_number()) return fmt::format("must be a number, not {}", shown(value));
  const double number = value.get<double>();
  const bool low = field.above_min ? number <= field.min : number < field.min;
  const bool high = field.below_max ? number >= field.max : number > field.max;
  if (low || high || !std::isfinite(number)) return fmt::format("{} is out of range: {}", shown(value), range_text(row));
  spec.*field.member = number;
  return "";
}

Complaint read(const LabelsField& field, const FieldRow&, const Json& value, JobSpec& spec) {
  if (!value.is_object()) return fmt::format("must be an object such as {{\"team\": \"nlp\"}}, not {}", shown(value));
  if (value.size() > kLabelsMax) return fmt::format("has {} labels, at most {} are taken", value.size(), kLabelsMax);
  Labels labels;
  for (const auto& [key, text] : value.items()) {
    if (!is_label_key(key)) {
      return fmt::format("key {} must be 1 to {} letters, digits and ._/-", shown(Json(key)), kLabelKeyBytes);
    }
    const bool as_number = field.numbers && text.is_number();
    if (!text.is_string() && !as_number) return fmt::format("value of {} must be a string, not {}", key, shown(text));
    labels[key] = as_number ? text.dump() : text.get<std::string>();
    if (labels[key].size() > kLabelValueBytes) {
      return fmt::format("value of {} has more than {} bytes", key, kLabelValueBytes);
    }
  }
  spec.*field.member = std::move(labels);
  return "";
}

constexpr size_t kUnknownToldMax = 20;  // each is compared with all that are known

void complain_of_unknown(const Json& json, Errors& errors) {
  std::vector<std::string> known;
  for (const FieldRow& row : job_spec_table()) known.emplace_back(row.name);
  size_t told = 0;
  for (const auto& [name, value] : json.items()) {
    if (contains(known, name)) continue;
    if (++told > kUnknownToldMax) {
      errors.push_back({"", fmt::format("more than {} fields are not known; the others are not listed", kUnknownToldMax)});
      return;
    }
    if (const ForeignName* foreign = find_foreign_name(name)) {
      errors.push_back({name, fmt::format("no such field; {}", foreign_name_in_words(*foreign))});
      continue;
    }
    const std::string nearest = nearest_name(name, known);
    errors.push_back({name.substr(0, 64), nearest.empty() ? "no such field; `holdfast submit --help` lists them all"
                                                          : fmt::format("no such field; did you mean {}?", nearest)});
  }
}

// A field that the job's kind has no use for would be a wish that is not fulfilled. `kind` itself says that of all others.
void complain_of_other_kind(const Json& json, const JobSpec& spec, Errors& errors) {
  for (const FieldRow& row : job_spec_table()) {
    if (!json.contains(row.name) || row.belongs_to(spec) || std::string_view(row.name) == "kind") continue;
    const auto is_it = [&](const FieldError& error) { return error.field == row.name; };
    if (std::ranges::any_of(errors, is_it)) continue;
    errors.push_back({row.name, spec.serves() ? "has no meaning for a job that serves (kind serve): leave it out"
                                              : "goes with kind serve: give that, too, or leave this one out"});
  }
}

void apply_preset(const Json& json, JobSpec& spec) {
  const ModelPreset* preset = find_model_preset(spec.model);
  if (preset == nullptr) return;
  const auto set = [&](const char* name, int64_t& field, int64_t value) {
    if (!json.contains(name)) field = value;
  };
  set("n_layer", spec.n_layer, preset->n_layer);
  set("n_embd", spec.n_embd, preset->n_embd);
  set("n_head", spec.n_head, preset->n_head);
  set("vocab_size", spec.vocab_size, preset->vocab_size);
  set("block_size", spec.block_size, preset->block_size);
}

constexpr int64_t kFollows = -1;  // of warmup_steps

int64_t default_warmup(int64_t steps) {
  return std::clamp<int64_t>(steps / 10, 0, JobSpec().warmup_steps);
}

// Fills in defaults that follow from other fields, so that a user may ask for 20 steps or a small learning rate alone.
void follow_other_fields(const Json& json, JobSpec& spec) {
  if (spec.serves() && !json.contains("nodes")) spec.nodes = spec.stages;
  if (spec.serves() && !json.contains("min_nodes")) spec.min_nodes = std::min(spec.stages, spec.nodes);
  if (!json.contains("min_lr") && json.contains("learning_rate")) spec.min_lr = spec.learning_rate / 10;
  if (spec.epochs > 0 && !json.contains("total_steps")) spec.total_steps = 0;
  if (!json.contains("warmup_steps"))
    spec.warmup_steps = spec.total_steps > 0 ? default_warmup(spec.total_steps - spec.schedule_start) : kFollows;
}

void resolve(JobSpec& spec) {
  if (spec.serves()) {
    spec.total_steps = spec.warmup_steps = 0;  // it has no end of its own
    if (spec.max_nodes == 0) spec.max_nodes = spec.nodes;
    return;
  }
  spec.global_batch_size = spec.microbatches() / spec.sync_every * spec.batch_size;
  if (spec.max_nodes == 0) spec.max_nodes = spec.dealt_units();
  if (spec.wire_dtype.empty()) spec.wire_dtype = default_wire_type(spec.reduction)->name;
}

}  // namespace

int64_t JobSpec::microbatches() const {
  return (global_batch_size > 0 ? global_batch_size / batch_size : gradient_accumulation_steps * nodes) * sync_every;
}

int64_t JobSpec::dealt_units() const {
  return sync_every > 1 ? nodes : microbatches();
}

int64_t JobSpec::steps_over(int64_t data_tokens) const {
  if (epochs == 0 || total_steps > 0 || data_tokens == 0) return total_steps;
  const int64_t sequences = epochs * ((data_tokens - 1) / block_size), in_a_step = microbatches() * batch_size;
  return std::max<int64_t>(1, (sequences + in_a_step - 1) / in_a_step);
}

JobSpec JobSpec::with_steps_over(int64_t data_tokens) const {
  JobSpec spec = *this;
  spec.total_steps = steps_over(data_tokens);
  spec.epochs = 0;
  const int64_t scheduled = std::max<int64_t>(0, spec.total_steps - schedule_start);
  spec.warmup_steps = warmup_steps == kFollows ? default_warmup(scheduled) : std::min(warmup_steps, scheduled);
  return spec;
}

int64_t JobSpec::tokens_per_step() const {
  return microbatches() * batch_size * block_size;
}

tl::expected<JobSpec, Errors> parse_job_spec(const Json& json) {
  if (!json.is_object()) return tl::unexpected(Errors{{"", fmt::format("a job spec is a JSON object, not {}", shown(json))}});
  JobSpec spec;
  Errors errors;
  complain_of_unknown(json, errors);
  for (const FieldRow& row : job_spec_table()) {
    const auto found = json.find(row.name);
    if (found == json.end()) continue;
    const Complaint complaint = std::visit([&](const auto& kind) { return read(kind, row, *found, spec); }, row.kind);
    if (!complaint.empty()) errors.push_back({row.name, complaint});
  }
  complain_of_other_kind(json, spec, errors);
  apply_preset(json, spec);
  follow_other_fields(json, spec);
  std::ranges::move(broken_rules(spec, errors), std::back_inserter(errors));
  if (!errors.empty()) return tl::unexpected(std::move(errors));
  resolve(spec);
  return spec;
}

Json to_json(const JobSpec& spec) {
  Json json = Json::object();
  for (const FieldRow& row : job_spec_table()) {
    if (row.belongs_to(spec)) std::visit([&](const auto& kind) { json[row.name] = spec.*kind.member; }, row.kind);
  }
  if (spec.serves()) return json;
  // A number that follows from the data's length is not in the spec.
  if (spec.total_steps == 0) json.erase("total_steps");
  if (spec.warmup_steps == kFollows) json.erase("warmup_steps");
  return json;
}

Json to_json_for_workers(const JobSpec& spec) {
  Json json = to_json(spec);
  for (const FieldRow& row : job_spec_table()) {
    if (row.of_service) json.erase(row.name);
  }
  return json;
}

JobSpec job_spec_from_json(const Json& json) {
  auto spec = parse_job_spec(json);
  if (spec) return *std::move(spec);
  std::string all;
  for (const FieldError& error : spec.error())
    all += fmt::format("{}{}: {}", all.empty() ? "" : "; ", error.field, error.message);
  throw std::invalid_argument("not a stored job spec: " + all);
}

Share deal(int64_t microbatches, int world_size, int rank) {
  // The first `microbatches % world_size` ranks take one more.
  const int64_t each = microbatches / world_size, more = microbatches % world_size;
  const int64_t first = rank * each + std::min<int64_t>(rank, more);
  return {first, first + each + (rank < more ? 1 : 0)};
}

}  // namespace holdfast::rendezvous

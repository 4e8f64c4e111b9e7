#include "ops/cli/jobs/diff.h"

#include <algorithm>
#include <array>
#include <set>

#include "ops/cli/terminal/terminal.h"
#include "rendezvous/text/time_text.h"

namespace holdfast::ops {
namespace {

constexpr std::array kResults = {"state",    "reason",     "step",          "loss",       "validation_loss",
                                 "restarts", "generation", "refused_steps", "state_hash", "state_hash_step"};

// Seconds from a job's start to its end; null while there is none.
Json duration_of(const Json& job) {
  const auto begin_ms = rendezvous::parse_time(text_at(job, "started_at"));
  const auto end_ms = rendezvous::parse_time(text_at(job, "finished_at"));
  return begin_ms && end_ms ? Json(static_cast<double>(*end_ms - *begin_ms) / 1000) : Json();
}

Json value_at(const Json& json, const std::string& name) {
  return json.is_object() && json.contains(name) ? json[name] : Json();
}

void note(std::vector<Difference>& list, const std::string& name, Json a, Json b) {
  if (a != b) list.push_back({name, std::move(a), std::move(b)});
}

// The fields in the order in which people read them; fields that this program does not know come last.
std::vector<std::string> fields_of(const Json& a, const Json& b) {
  std::vector<std::string> names;
  for (const auto& field : rendezvous::job_spec_fields()) names.push_back(field.name);
  std::set<std::string> others;
  for (const Json* spec : {&a, &b}) {
    if (!spec->is_object()) continue;
    for (const auto& [name, value] : spec->items()) {
      if (std::ranges::find(names, name) == names.end()) others.insert(name);
    }
  }
  names.insert(names.end(), others.begin(), others.end());
  return names;
}

bool continues(const std::string& text, size_t at) {  // a UTF-8 character that began before `at`
  return at < text.size() && (static_cast<unsigned char>(text[at]) & 0xC0U) == 0x80U;
}

}  // namespace

JobDiff diff_of(const Json& a, const Json& b) {
  JobDiff diff;
  const Json spec_a = value_at(a, "spec"), spec_b = value_at(b, "spec");
  for (const std::string& name : fields_of(spec_a, spec_b))
    note(diff.spec, name, value_at(spec_a, name), value_at(spec_b, name));
  for (const char* name : kResults) note(diff.result, name, value_at(a, name), value_at(b, name));
  note(diff.result, "duration_s", duration_of(a), duration_of(b));
  diff.same_bits = !text_at(a, "state_hash").empty() && value_at(a, "state_hash") == value_at(b, "state_hash") &&
                   value_at(a, "state_hash_step") == value_at(b, "state_hash_step");
  return diff;
}

Json json_of(const JobDiff& diff, const Json& a, const Json& b) {
  const auto rows = [](const std::vector<Difference>& list) {
    Json all = Json::array();
    for (const Difference& one : list) all.push_back({{"name", one.name}, {"a", one.a}, {"b", one.b}});
    return all;
  };
  return {{"a", text_at(a, "id")},
          {"b", text_at(b, "id")},
          {"spec", rows(diff.spec)},
          {"result", rows(diff.result)},
          {"same_bits", diff.same_bits}};
}

std::pair<std::string, std::string> with_differing_part_bold(const std::string& a, const std::string& b) {
  const size_t shorter = std::min(a.size(), b.size());
  size_t begin = 0, end = 0;
  while (begin < shorter && a[begin] == b[begin]) ++begin;
  while (begin > 0 && (continues(a, begin) || continues(b, begin))) --begin;
  while (end < shorter - begin && a[a.size() - 1 - end] == b[b.size() - 1 - end]) ++end;
  while (end > 0 && (continues(a, a.size() - end) || continues(b, b.size() - end))) --end;
  const auto marked = [&](const std::string& text) {
    return text.substr(0, begin) + painted(text.substr(begin, text.size() - begin - end), Style::kBold, true) +
           text.substr(text.size() - end);
  };
  return {marked(a), marked(b)};
}

}  // namespace holdfast::ops

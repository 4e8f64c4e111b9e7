#include "ops/cli/job_diff.h"

#include <algorithm>
#include <array>
#include <ctime>
#include <set>

#include "ops/cli/terminal.h"

namespace holdfast::ops {
namespace {

constexpr std::array kResults = {"state",    "reason",     "step",          "loss",       "validation_loss",
                                 "restarts", "generation", "refused_steps", "state_hash", "state_hash_step"};

std::optional<double> seconds_since_1970(const std::string& rfc3339) {
  std::tm parts{};
  const char* rest = strptime(rfc3339.c_str(), "%Y-%m-%dT%H:%M:%S", &parts);
  if (rest == nullptr) return std::nullopt;
  const double fraction = *rest == '.' ? std::strtod(rest, nullptr) : 0;
  return static_cast<double>(timegm(&parts)) + fraction;
}

// Seconds from a job's start to its end; null while there is none.
Json duration_of(const Json& job) {
  const auto begin = seconds_since_1970(text_at(job, "started_at")), end = seconds_since_1970(text_at(job, "finished_at"));
  return begin && end ? Json(*end - *begin) : Json();
}

Json value_at(const Json& json, const std::string& name) {
  return json.is_object() && json.contains(name) ? json[name] : Json();
}

void note(std::vector<Difference>& list, const std::string& name, Json a, Json b) {
  if (a != b) list.push_back({name, std::move(a), std::move(b)});
}

// In the order in which people read the fields; those that this program does not know come last.
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

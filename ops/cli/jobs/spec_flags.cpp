#include "ops/cli/jobs/spec_flags.h"

#include <fmt/format.h>

namespace holdfast::ops {
namespace {

// String fields whose value is a file, a folder or a job: completion offers those.
constexpr std::pair<const char*, const char*> kValues[] = {{"train_data_path", "FILE"},
                                                           {"valid_data_path", "FILE"},
                                                           {"checkpoint_store", "PLACE"},
                                                           {"checkpoint_copy", "PLACE"},
                                                           {"init_from", "PLACE"},
                                                           {"resume_from", "PLACE"},
                                                           {"after", "JOB"}};

}  // namespace

std::string value_name_of(const rendezvous::SpecField& field) {
  if (!field.choices.empty()) return fmt::format("{{{}}}", fmt::join(field.choices, ","));
  for (const auto& [name, value] : kValues) {
    if (field.name == name) return value;
  }
  return field.type == "integer" ? "INT" : field.type == "number" ? "NUMBER" : field.type == "map" ? "KEY=VALUE" : "TEXT";
}

Json typed_value(const rendezvous::SpecField& field, const std::string& text) {
  if (field.type != "integer" && field.type != "number") return text;
  const Json parsed = Json::parse(text, nullptr, false);
  return parsed.is_number() ? parsed : Json(text);
}

std::string flag_help_of(const rendezvous::SpecField& field) {
  std::string facts = field.default_value;
  if (field.choices.empty()) facts += (facts.empty() ? "" : "; ") + field.range;
  return facts.empty() ? field.help : fmt::format("{} [{}]", field.help, facts);
}

}  // namespace holdfast::ops

#include "ops/cli/submit/foreign_flags.h"

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <optional>
#include <vector>

#include "ops/cli/command/command.h"
#include "ops/cli/jobs/spec_flags.h"
#include "rendezvous/protocol/foreign_names.h"
#include "rendezvous/protocol/job_spec.h"

namespace holdfast::ops {
namespace {

using rendezvous::ForeignName;

bool is_empty(const char* text) {
  return *text == '\0';
}

// DeepSpeed writes {"enabled": true} where others write true, {"stage": 2} of what it divides, {"device": "cpu"} of offload.
std::string text_of_value(const Json& value) {
  for (const char* key : {"enabled", "stage", "device"}) {
    if (value.is_object() && value.contains(key)) return text_of_value(value[key]);
  }
  return value.is_string() ? value.get<std::string>() : value.dump();
}

std::optional<double> number_of(const std::string& text) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size() ? std::optional(number) : std::nullopt;
}

// "True" and "1" are true, "0.0" is 0.
bool same_value(std::string text, const std::string& wanted) {
  std::ranges::transform(text, text.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  if (text == wanted || (wanted == "true" && text == "1") || (wanted == "false" && text == "0")) return true;
  return number_of(text).has_value() && number_of(text) == number_of(wanted);
}

const rendezvous::SpecField& field_of(const ForeignName& name) {
  return *std::ranges::find(rendezvous::job_spec_fields(), std::string(name.field), &rendezvous::SpecField::name);
}

// torchrun's --nnodes MIN:MAX.
std::optional<std::string> complaint_of_range(const ForeignName& name, const std::string& text) {
  const size_t colon = text.find(':');
  if (std::string_view(name.name) != "nnodes" || colon == std::string::npos) return std::nullopt;
  return fmt::format("torchrun's nnodes {} is --min_nodes {} --nodes {} here", text, text.substr(0, colon),
                     text.substr(colon + 1));
}

// One name with its value into its field. The complaint is empty when it was taken.
std::string put(Json& spec, const ForeignName& name, const std::string& text, const std::string* own) {
  if (is_empty(name.field)) {
    if (!is_empty(name.allowed) && same_value(text, name.allowed)) return "";
    return rendezvous::foreign_name_in_words(name);
  }
  if (const auto complaint = complaint_of_range(name, text)) return *complaint;
  if (!is_empty(name.value) && same_value(text, "false")) return "";
  const auto translated = is_empty(name.values) ? std::optional(text) : rendezvous::own_value(name, text);
  if (!translated) return fmt::format("{}; {} is none of these", rendezvous::foreign_name_in_words(name), text);
  const std::string value = is_empty(name.value) ? *translated : name.value;
  if (own != nullptr && *own != value) {
    return fmt::format("{}, and both are given: {} and {}; leave one away", rendezvous::foreign_name_in_words(name), text,
                       *own);
  }
  spec[name.field] = typed_value(field_of(name), value);
  return "";
}

}  // namespace

void ForeignFlags::add_to(CLI::App& command) {
  for (const ForeignName& name : rendezvous::foreign_names()) {
    command
        .add_option_function<std::vector<std::string>>(
            fmt::format("--{}", name.name),
            [this, key = std::string(name.name)](const std::vector<std::string>& words) {
              typed_[key] = words.empty() || words.front().empty() ? "true" : words.front();
            })
        ->expected(0, 1)
        ->group("");  // CLI11 shows no option of a group without a name
  }
}

void ForeignFlags::apply(Json& spec, const std::map<std::string, std::string>& flags) const {
  std::string complaints;
  const auto complain = [&](const std::string& complaint) {
    if (!complaint.empty()) complaints += "\n  " + complaint;
  };
  const Json given = spec;
  for (const auto& [key, value] : given.items()) {
    const ForeignName* name = rendezvous::find_foreign_name(key);
    if (name == nullptr) continue;
    spec.erase(key);
    const Json parts = value.is_object() ? value : Json::object();
    for (const auto& [part, its_value] : parts.items()) {
      const ForeignName* inner = rendezvous::find_foreign_name(part);
      if (inner != nullptr) complain(put(spec, *inner, text_of_value(its_value), nullptr));
    }
    const std::string own = given.contains(name->field) ? text_of_value(given[name->field]) : "";
    complain(put(spec, *name, text_of_value(value), own.empty() || flags.contains(name->field) ? nullptr : &own));
  }
  for (const auto& [key, text] : typed_) {
    const ForeignName& name = *rendezvous::find_foreign_name(key);
    const auto own = flags.find(name.field);
    complain(put(spec, name, text, own == flags.end() ? nullptr : &own->second));
  }
  for (const auto& [field, text] : flags) {  // they win over a foreign name of the file
    spec[field] = typed_value(*std::ranges::find(rendezvous::job_spec_fields(), field, &rendezvous::SpecField::name), text);
  }
  // The two say in other words how long a job is, so that a flag wins over the other one of the file, too.
  const auto is_typed = [&](const std::string& field) {
    return flags.contains(field) || std::ranges::any_of(typed_, [&](const auto& each) {
             return rendezvous::find_foreign_name(each.first)->field == field;
           });
  };
  if (is_typed("epochs") && !is_typed("total_steps") && spec["epochs"] != 0) spec.erase("total_steps");
  if (is_typed("total_steps") && !is_typed("epochs")) spec.erase("epochs");
  if (complaints.empty()) return;
  throw Failure{kBadInput, "some of this is written otherwise here (`holdfast help torchrun` has all of it):" + complaints};
}

}  // namespace holdfast::ops

#include "rendezvous/protocol/json_values.h"

#include <fmt/format.h>

#include <stdexcept>

#include "rendezvous/protocol/messages.h"

namespace holdfast::rendezvous {

void refuse(const std::string& field, const char* expected, const nlohmann::json& found) {
  std::string text = found.is_structured() ? fmt::format("an {}", found.type_name()) : json_text(found);
  if (text.size() > 60) text = text.substr(0, 60) + "…";
  throw std::invalid_argument(fmt::format("{}: expected {}, got {}", field, expected, text));
}

void read(const std::string& field, const nlohmann::json& json, std::string& out) {
  if (!json.is_string()) refuse(field, "a string", json);
  out = json.get<std::string>();
}
void read(const std::string& field, const nlohmann::json& json, bool& out) {
  if (!json.is_boolean()) refuse(field, "true or false", json);
  out = json.get<bool>();
}
void read(const std::string& field, const nlohmann::json& json, int64_t& out) {
  const bool fits = json.is_number_integer() && !(json.is_number_unsigned() && json.get<uint64_t>() > uint64_t{INT64_MAX});
  if (!fits) refuse(field, "an integer", json);
  out = json.get<int64_t>();
}
void read(const std::string& field, const nlohmann::json& json, int& out) {
  int64_t wide = 0;
  read(field, json, wide);
  if (wide < INT32_MIN || wide > INT32_MAX) refuse(field, "a 32-bit integer", json);
  out = static_cast<int>(wide);
}
void read(const std::string& field, const nlohmann::json& json, double& out) {
  const std::optional<double> number = number_from_json(json);
  if (!number) refuse(field, "a number, \"nan\", \"inf\" or \"-inf\"", json);
  out = *number;
}
void read(const std::string& field, const nlohmann::json& json, std::map<std::string, std::string>& out) {
  if (!json.is_object()) refuse(field, "an object of strings", json);
  out.clear();
  for (const auto& [key, value] : json.items()) read(field + "." + key, value, out[key]);
}
}  // namespace holdfast::rendezvous

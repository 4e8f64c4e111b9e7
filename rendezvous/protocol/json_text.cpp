// Two cases that JSON leaves open, and that all messages treat alike: numbers that are not finite, and bytes that are not
// UTF-8.
#include <cmath>
#include <limits>

#include "rendezvous/protocol/messages.h"

namespace holdfast::rendezvous {

nlohmann::json number_json(double value) {
  if (std::isfinite(value)) return value;
  return std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf";
}

std::optional<double> number_from_json(const nlohmann::json& json) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (json.is_number()) return json.get<double>();
  if (json.is_null() || json == "nan") return std::numeric_limits<double>::quiet_NaN();
  if (json == "inf") return kInfinity;
  if (json == "-inf") return -kInfinity;
  return std::nullopt;
}

std::string json_text(const nlohmann::json& json) {
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace holdfast::rendezvous

#include "storage/json/outside_json.h"

#include <utility>

namespace holdfast::storage {

ParsedJson parse_json(std::string_view text) {
  bool too_deep = false;
  const auto shallow = [&](int depth, nlohmann::json::parse_event_t, nlohmann::json&) {
    too_deep |= depth > kJsonDepthMax;
    return depth <= kJsonDepthMax;
  };
  nlohmann::json json = nlohmann::json::parse(text, shallow, false);
  if (too_deep) json = nlohmann::json(nlohmann::json::value_t::discarded);
  return {std::move(json), too_deep};
}

}  // namespace holdfast::storage

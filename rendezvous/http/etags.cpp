#include "rendezvous/http/etags.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>
#include <string_view>

#include "rendezvous/protocol/messages.h"

namespace holdfast::rendezvous {
namespace {

using Json = nlohmann::json;

std::string digest(const Json& json) {
  const std::string text = json_text(json);
  return fmt::format("{:016x}", XXH3_64bits(text.data(), text.size()));
}

// True when `matches` accepts one of the tags in the list. The prefix of weak tags ("W/") is ignored (weak comparison).
bool any_tag(std::string_view list, const std::function<bool(std::string_view)>& matches) {
  while (!list.empty()) {
    const size_t open = list.find('"');
    if (open == list.npos) return list.find('*') != list.npos;
    const size_t close = list.find('"', open + 1);
    if (close == list.npos) return false;
    if (matches(list.substr(open, close - open + 1))) return true;
    list.remove_prefix(close + 1);
  }
  return false;
}

std::string_view steering_part(std::string_view etag) {
  return etag.substr(0, etag.find('.'));
}

}  // namespace

std::string job_etag(const Json& shown) {
  const Json steering = {shown.at("state"), shown.at("wanted"), shown.at("intent")};
  Json rest = shown;
  rest.erase("running_s");
  if (Json& checkpoint = rest["latest_checkpoint"]; checkpoint.is_object()) checkpoint.erase("age_s");
  return fmt::format("\"{}.{}\"", digest(steering), digest(rest));
}

bool none_match(const std::string& header, const std::string& etag) {
  return any_tag(header, [&](std::string_view tag) { return tag == etag; });
}

bool match_for_steering(const std::string& header, const std::string& etag) {
  return any_tag(header, [&](std::string_view tag) { return steering_part(tag) == steering_part(etag); });
}

}  // namespace holdfast::rendezvous

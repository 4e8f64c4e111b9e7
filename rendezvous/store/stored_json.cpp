// Members and state sources as JSON, the way the directive writes them.
#include "rendezvous/store/stored_json.h"

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

namespace holdfast::rendezvous {

using Json = nlohmann::json;

Json members_to_json(const std::vector<Member>& members) {
  Json json = Json::array();
  for (const Member& m : members)
    json.push_back({{"worker", m.worker}, {"incarnation", m.incarnation}, {"address", m.address}});
  return json;
}

std::vector<Member> members_from_json(const Json& json) {
  std::vector<Member> members;
  for (const Json& m : json) members.push_back({m.at("worker"), m.at("incarnation"), m.at("address")});
  return members;
}

Json source_to_json(const StateSource& s) {
  return {{"kind", static_cast<int>(s.kind)}, {"step", s.step}, {"job", s.job}, {"store", s.store},
          {"state_hash", s.state_hash},       {"copy", s.copy}};
}

StateSource source_from_json(const Json& json) {
  StateSource source;
  source.kind = static_cast<StateSource::Kind>(json.at("kind").get<int>());
  source.step = json.at("step");
  source.job = json.at("job");
  source.store = json.at("store");
  source.state_hash = json.at("state_hash");
  source.copy = json.value("copy", "");  // older databases do not have it
  return source;
}

double stored_number(double value) {
  return std::isnan(value) ? -std::numeric_limits<double>::infinity() : value;
}

double number_from_stored(double stored) {
  return stored == -std::numeric_limits<double>::infinity() ? std::numeric_limits<double>::quiet_NaN() : stored;
}

}  // namespace holdfast::rendezvous

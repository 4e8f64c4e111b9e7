// Parts of messages that are stored by themselves: members and state sources, as JSON; and numbers.
//
// from_json of what to_json wrote; throws nlohmann's exceptions on anything else (a damaged database).
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "rendezvous/protocol/messages.h"

namespace holdfast::rendezvous {

nlohmann::json members_to_json(const std::vector<Member>& members);
std::vector<Member> members_from_json(const nlohmann::json& json);
nlohmann::json source_to_json(const StateSource& source);
StateSource source_from_json(const nlohmann::json& json);

// SQLite has no NaN (it makes it NULL): -infinity stands for it, which none of the numbers that are kept can be.
double stored_number(double value);
double number_from_stored(double stored);

}  // namespace holdfast::rendezvous

// Entity tags of a job (RFC 9110, section 8.8.3): a digest of what is shown, without the fields that time alone changes.
//
// A tag has two parts: the fields that steering changes (state, intent, wanted workers), and the rest (steps, members …).
// If-None-Match compares both, so a poll sees each step. If-Match compares the first part alone: otherwise each new step of a
// job in training would refuse the request of a user who saw the step before.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace holdfast::rendezvous {

std::string job_etag(const nlohmann::json& shown);
// `header`: the value of If-None-Match or If-Match, a list of tags or "*".
bool none_match(const std::string& header, const std::string& etag);
bool match_for_steering(const std::string& header, const std::string& etag);

}  // namespace holdfast::rendezvous

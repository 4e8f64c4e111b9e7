// Entity tags of a job (RFC 9110, section 8.8.3): what is shown, without what only time changes.
//
// A tag has two parts: what steering changes (state, intent, how many workers are wanted), and the rest (steps, members …).
// If-None-Match compares both, so a poll sees each step; If-Match compares the first alone, or nobody could ever steer a job
// that trains on the ground of what they saw.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace holdfast::rendezvous {

std::string job_etag(const nlohmann::json& shown);
// `header`: of If-None-Match or If-Match, a list of tags, or "*".
bool none_match(const std::string& header, const std::string& etag);
bool match_for_steering(const std::string& header, const std::string& etag);

}  // namespace holdfast::rendezvous

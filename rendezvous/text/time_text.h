// Moments as text, in UTC (RFC 3339).
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace holdfast::rendezvous {

// Wall time in milliseconds since 1970: "2026-03-01T12:00:00.123Z".
std::string time_text(int64_t wall_ms);
// And back, to the millisecond; a fraction may have any number of digits or be left out. Nothing for any other text.
std::optional<int64_t> parse_time(const std::string& text);

}  // namespace holdfast::rendezvous

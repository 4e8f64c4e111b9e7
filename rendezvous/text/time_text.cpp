#include "rendezvous/text/time_text.h"

#include <fmt/format.h>

#include <ctime>

namespace holdfast::rendezvous {

std::string time_text(int64_t wall_ms) {
  const std::time_t time = wall_ms / 1000;
  std::tm parts{};
  gmtime_r(&time, &parts);
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:03}Z", parts.tm_year + 1900, parts.tm_mon + 1, parts.tm_mday,
                     parts.tm_hour, parts.tm_min, parts.tm_sec, wall_ms % 1000);
}

std::optional<int64_t> parse_time(const std::string& text) {
  std::tm parts{};
  const char* rest = strptime(text.c_str(), "%Y-%m-%dT%H:%M:%S", &parts);
  if (rest == nullptr) return std::nullopt;
  int64_t wall_ms = static_cast<int64_t>(timegm(&parts)) * 1000;
  if (*rest != '.') return wall_ms;
  for (int64_t worth_ms = 100; *++rest >= '0' && *rest <= '9'; worth_ms /= 10) wall_ms += (*rest - '0') * worth_ms;
  return wall_ms;
}

}  // namespace holdfast::rendezvous

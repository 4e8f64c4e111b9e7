// Numbers, durations and times for people.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace holdfast::ops {

// "50ms", "0.4s", "42s", "2m 14s", "3h 05m", "2d 04h"; "-" for none.
std::string duration_text(std::optional<double> seconds);
// "512 B", "120.6 MB", "1.2 GB": powers of ten, as disks and networks count.
std::string bytes_text(std::optional<double> bytes);
// "3.4127", "not finite"; "-" for none.
std::string loss_text(std::optional<double> loss);
// "10,240 tokens/s"; "-" for none.
std::string rate_text(std::optional<double> tokens_per_second);
// "12,345": groups of three.
std::string count_text(int64_t count);
// "2026-11-20 16:55:03" of an RFC 3339 time; "-" when empty.
std::string time_text(const std::string& rfc3339);

}  // namespace holdfast::ops

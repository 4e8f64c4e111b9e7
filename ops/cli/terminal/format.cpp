#include "ops/cli/terminal/format.h"

#include <fmt/format.h>

#include <array>
#include <cmath>

namespace holdfast::ops {
namespace {

constexpr const char* kNone = "-";

}  // namespace

std::string duration_text(std::optional<double> seconds) {
  if (!seconds || !std::isfinite(*seconds) || *seconds < 0) return kNone;
  if (*seconds < 0.0995) return fmt::format("{:.0f}ms", *seconds * 1000);
  if (*seconds < 9.95) return fmt::format("{:.1f}s", *seconds);
  const auto total = static_cast<int64_t>(std::llround(*seconds));
  const int64_t minutes = total / 60, hours = minutes / 60, days = hours / 24;
  if (minutes == 0) return fmt::format("{}s", total);
  if (hours == 0) return fmt::format("{}m {:02}s", minutes, total % 60);
  if (days == 0) return fmt::format("{}h {:02}m", hours, minutes % 60);
  return fmt::format("{}d {:02}h", days, hours % 24);
}

std::string bytes_text(std::optional<double> bytes) {
  if (!bytes) return kNone;
  constexpr std::array kUnits = {"B", "kB", "MB", "GB", "TB"};
  double value = *bytes;
  size_t unit = 0;
  while (value >= 1000 && unit + 1 < kUnits.size()) {
    value /= 1000;
    ++unit;
  }
  return unit == 0 ? fmt::format("{:.0f} B", value) : fmt::format("{:.1f} {}", value, kUnits[unit]);
}

std::string loss_text(std::optional<double> loss) {
  if (loss && !std::isfinite(*loss)) return "not finite";
  return loss ? fmt::format("{:.4f}", *loss) : kNone;
}

std::string rate_text(std::optional<double> tokens_per_second) {
  return tokens_per_second ? count_text(std::llround(*tokens_per_second)) + " tokens/s" : kNone;
}

std::string count_text(int64_t count) {
  const std::string digits = fmt::format("{}", count < 0 ? -count : count);
  std::string grouped = count < 0 ? "-" : "";
  for (size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % 3 == 0) grouped += ',';
    grouped += digits[i];
  }
  return grouped;
}

std::string time_text(const std::string& rfc3339) {
  if (rfc3339.size() < 19) return rfc3339.empty() ? kNone : rfc3339;
  std::string text = rfc3339.substr(0, 19);
  text[10] = ' ';
  return text;
}

}  // namespace holdfast::ops

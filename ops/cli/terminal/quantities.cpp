#include "ops/cli/terminal/quantities.h"

#include <fmt/format.h>

#include <algorithm>

namespace holdfast::ops {
namespace {

std::string three_digits(double value) {
  return value >= 100  ? fmt::format("{:.0f}", value)
         : value >= 10 ? fmt::format("{:.1f}", value)
                       : fmt::format("{:.2f}", value);
}

}  // namespace

std::string seconds_text(double seconds) {
  if (seconds >= 0.9995) return three_digits(seconds) + " s";
  if (seconds >= 0.9995e-3) return three_digits(seconds * 1e3) + " ms";
  return seconds == 0 ? "0 s" : fmt::format("{:.0f} us", seconds * 1e6);
}

std::string link_rate_text(double bytes_per_second) {
  return fmt::format("{} MB/s ({:.3g} Gbit/s)", three_digits(bytes_per_second / 1e6), bytes_per_second * 8 / 1e9);
}

std::string percent_text(double share) {
  const double percent = share * 100;
  return percent < 9.95 || percent >= 98.95 ? fmt::format("{:.1f} %", percent) : fmt::format("{:.0f} %", percent);
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

}  // namespace holdfast::ops

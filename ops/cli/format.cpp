// Everything here is pure but for terminal_width and Table::print.
#include "ops/cli/format.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace holdfast::ops {
namespace {

constexpr const char* kNone = "-";

struct Character {
  char32_t code;
  size_t bytes;
};
Character character_at(const std::string& text, size_t at) {
  const auto byte = static_cast<unsigned char>(text[at]);
  const size_t length = byte < 0x80 ? 1 : byte >= 0xF0 ? 4 : byte >= 0xE0 ? 3 : byte >= 0xC0 ? 2 : 1;
  if (at + length > text.size()) return {byte, 1};
  char32_t code = length == 1 ? byte : byte & (0xFFU >> (length + 1));
  for (size_t i = 1; i < length; ++i) code = (code << 6) | (static_cast<unsigned char>(text[at + i]) & 0x3FU);
  return {code, length};
}

// East Asian wide and full-width blocks (Unicode TR 11), as far as people's names and prompts need them.
size_t width_of(char32_t code) {
  const bool wide = (code >= 0x1100 && code <= 0x115F) || (code >= 0x2E80 && code <= 0xA4CF) ||
                    (code >= 0xAC00 && code <= 0xD7A3) || (code >= 0xF900 && code <= 0xFAFF) ||
                    (code >= 0xFE30 && code <= 0xFE6F) || (code >= 0xFF00 && code <= 0xFF60) ||
                    (code >= 0x1F300 && code <= 0x1FAFF) || (code >= 0x20000 && code <= 0x3FFFD);
  return wide ? 2 : 1;
}

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

size_t columns(const std::string& text) {
  size_t sum = 0;
  for (size_t at = 0; at < text.size();) {
    const Character character = character_at(text, at);
    sum += width_of(character.code);
    at += character.bytes;
  }
  return sum;
}

std::string cut_to(const std::string& text, size_t width) {
  if (columns(text) <= width) return text;
  std::string cut;
  size_t used = 0;
  for (size_t at = 0; at < text.size();) {
    const Character character = character_at(text, at);
    used += width_of(character.code);
    if (used + 1 > width) break;
    cut += text.substr(at, character.bytes);
    at += character.bytes;
  }
  return width == 0 ? "" : cut + "…";
}

size_t terminal_width(int fd) {
  winsize size{};
  if (isatty(fd) == 0 || ioctl(fd, TIOCGWINSZ, &size) != 0) return 0;
  return size.ws_col == 0 ? 80 : size.ws_col;
}

std::string Table::text(size_t width_max) const {
  std::vector<size_t> widths(rows_.front().size());
  for (const auto& row : rows_) {
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], columns(row[i]));
  }
  std::string text;
  for (const auto& row : rows_) {
    std::string line;
    size_t used = 0;
    for (size_t i = 0; i < row.size(); ++i) {
      const bool last = i + 1 == row.size();
      std::string cell = row[i];
      if (last && width_max > used) cell = cut_to(cell, width_max - used);
      line += cell;
      used += widths[i] + 2;
      if (!last) line += std::string(widths[i] + 2 - columns(cell), ' ');
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

void Table::print() const {
  fmt::print("{}", text(terminal_width(STDOUT_FILENO)));
}

}  // namespace holdfast::ops

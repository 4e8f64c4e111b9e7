// Numbers, durations and tables for people.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

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

// Columns a terminal needs for UTF-8 text: wide characters (Chinese) take two.
size_t columns(const std::string& text);
// The text cut to `width` columns, with … where something is gone.
std::string cut_to(const std::string& text, size_t width);
// Columns of the terminal behind a file descriptor; 0 when it is none.
size_t terminal_width(int fd);

// Rows under their headings; columns as wide as their widest cell, the last one cut where stdout is a terminal.
class Table {
 public:
  explicit Table(std::vector<std::string> headings) : rows_{std::move(headings)} {}
  void add(std::vector<std::string> row) { rows_.push_back(std::move(row)); }
  std::string text(size_t width_max) const;  // 0: no bound
  void print() const;

 private:
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace holdfast::ops

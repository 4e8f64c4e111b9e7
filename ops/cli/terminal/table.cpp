#include "ops/cli/terminal/table.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <numeric>

#include "ops/cli/terminal/text_width.h"

namespace holdfast::ops {
namespace {

constexpr size_t kLeftOut = static_cast<size_t>(-1);  // of a column: it is not shown
constexpr size_t kBetween = 2;                        // spaces between columns

size_t total(const std::vector<size_t>& widths) {
  size_t sum = 0, shown = 0;
  for (const size_t width : widths) {
    if (width == kLeftOut) continue;
    sum += width;
    ++shown;
  }
  return sum + (shown > 0 ? (shown - 1) * kBetween : 0);
}

// The columns' numbers, by an order of theirs; those without one are not among them.
std::vector<size_t> in_order(const std::vector<Column>& columns, int Column::*order) {
  std::vector<size_t> numbers;
  for (size_t i = 0; i < columns.size(); ++i) {
    if (columns[i].*order > 0) numbers.push_back(i);
  }
  std::ranges::stable_sort(numbers, {}, [&](size_t i) { return columns[i].*order; });
  return numbers;
}

}  // namespace

Column Column::shrinks(int order, size_t at_least) const {
  Column column = *this;
  column.shrink_order = order;
  column.least = at_least;
  return column;
}

Column Column::left_out(int order) const {
  Column column = *this;
  column.leave_out_order = order;
  return column;
}

Column Column::right() const {
  Column column = *this;
  column.aligned_right = true;
  return column;
}

void Table::add(std::vector<Cell> row) {
  for (Cell& cell : row) cell.text = printable(cell.text);
  rows_.push_back(std::move(row));
}

// Shrinking is tried anew for each column that is left out, so that what it leaves goes to those that stay.
std::vector<size_t> Table::widths_within(size_t width_max) const {
  std::vector<size_t> natural;
  for (size_t i = 0; i < columns_.size(); ++i) {
    natural.push_back(columns(columns_[i].heading));
    for (const auto& row : rows_) {
      const bool whole_row = row.size() == columns_.size();
      if (i < row.size() && (whole_row || i + 1 < row.size())) natural[i] = std::max(natural[i], columns(row[i].text));
    }
  }
  if (width_max == 0) return natural;
  const std::vector<size_t> shrinking = in_order(columns_, &Column::shrink_order);
  std::vector<size_t> leaving = in_order(columns_, &Column::leave_out_order);
  for (size_t left_out = 0;; ++left_out) {
    std::vector<size_t> widths = natural;
    for (size_t i = 0; i < left_out; ++i) widths[leaving[i]] = kLeftOut;
    for (const size_t i : shrinking) {
      if (widths[i] == kLeftOut || total(widths) <= width_max) continue;
      const size_t least = std::max(columns_[i].least, columns(columns_[i].heading));
      widths[i] -= std::min(total(widths) - width_max, widths[i] - std::min(widths[i], least));
    }
    if (total(widths) <= width_max || left_out == leaving.size()) return widths;
  }
}

std::string Table::line(const std::vector<Cell>& row, const std::vector<size_t>& widths, size_t width_max, bool colour) const {
  std::vector<size_t> shown;
  const bool short_row = row.size() < columns_.size();
  for (size_t i = 0; i < row.size(); ++i) {
    if (widths[i] != kLeftOut || (short_row && i + 1 == row.size())) shown.push_back(i);
  }
  std::string text;
  size_t used = 0;
  for (const size_t i : shown) {
    const bool last = i == shown.back(), ends_short = last && short_row;
    const size_t left = width_max == 0 ? kLeftOut : width_max - std::min(width_max, used);
    const size_t width = ends_short ? left : std::min(widths[i], left);
    const std::string cell = cut_to(row[i].text, width);
    const bool right = columns_[i].aligned_right && !ends_short;
    const size_t spaces = ends_short ? 0 : width - columns(cell);
    if (right) text += std::string(spaces, ' ');
    text += painted(cell, row[i].style, colour);
    if (!last) text += std::string((right ? 0 : spaces) + kBetween, ' ');
    used += columns(cell) + spaces + kBetween;
  }
  text.erase(text.find_last_not_of(' ') + 1);
  return text + "\n";
}

std::string Table::text(size_t width_max, bool colour) const {
  const std::vector<size_t> widths = widths_within(width_max);
  std::vector<Cell> headings;
  for (const Column& column : columns_) headings.emplace_back(column.heading, Style::kBold);
  std::string text = line(headings, widths, width_max, colour);
  for (const auto& row : rows_) text += line(row, widths, width_max, colour);
  return text;
}

void Table::print(bool wide) const {
  fmt::print("{}", text(wide ? 0 : terminal_width(STDOUT_FILENO), colour_wanted(STDOUT_FILENO)));
}

}  // namespace holdfast::ops

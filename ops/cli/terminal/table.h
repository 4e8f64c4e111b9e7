// Tables for people: columns that fit the terminal, and whole ones where there is none.
//
// A table that is too wide is made to fit in this order: columns that may shrink do, to the least they need; then columns that
// may be left out are; then lines are cut. Where something of a cell is gone, … stands.
#pragma once

#include <string>
#include <vector>

#include "ops/cli/terminal/terminal.h"

namespace holdfast::ops {

struct Column {
  Column(const char* text) : heading(text) {}             // NOLINT(google-explicit-constructor): a heading is a column
  Column(std::string text) : heading(std::move(text)) {}  // NOLINT(google-explicit-constructor)
  Column shrinks(int order, size_t at_least) const;       // the lowest order first
  Column left_out(int order) const;                       // the lowest order first
  Column right() const;                                   // aligned, as numbers are
  std::string heading;
  int shrink_order = 0, leave_out_order = 0;  // 0: never
  size_t least = 0;
  bool aligned_right = false;
};

struct Cell {
  Cell(const char* words) : text(words) {}  // NOLINT(google-explicit-constructor)
  Cell(std::string words, Style of = Style::kPlain)
      : text(std::move(words)), style(of) {}  // NOLINT(google-explicit-constructor)
  std::string text;
  Style style = Style::kPlain;
};

// Rows under their headings. The last cell of a row with fewer cells than headings goes over the columns that are left.
class Table {
 public:
  explicit Table(std::vector<Column> all) : columns_(std::move(all)) {}
  void add(std::vector<Cell> row);
  std::string text(size_t width_max, bool colour = false) const;  // 0: no bound
  // On stdout; as wide as the terminal, or with `wide` as it is.
  void print(bool wide) const;

 private:
  std::vector<size_t> widths_within(size_t width_max) const;
  std::string line(const std::vector<Cell>& row, const std::vector<size_t>& widths, size_t width_max, bool colour) const;
  std::vector<Column> columns_;
  std::vector<std::vector<Cell>> rows_;
};

}  // namespace holdfast::ops

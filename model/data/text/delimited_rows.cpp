#include "model/data/text/delimited_rows.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <vector>

namespace holdfast::model {
namespace {

class DelimitedRows final : public RecordReader {
 public:
  DelimitedRows(CheckedText& text, std::string field, char delimiter)
      : text_(text), field_(std::move(field)), delimiter_(delimiter), has_quotes_(delimiter == ',') {}

  tl::expected<std::optional<TextPart>, std::string> next() override {
    for (;;) {
      const auto found = next_row();
      if (!found) return tl::unexpected(found.error());
      if (!*found) return std::nullopt;
      if (row_.size() == 1 && row_[0].empty()) continue;  // an empty line
      if (column_ < 0) {
        if (auto named = find_column(); !named) return tl::unexpected(named.error());
        continue;
      }
      if (static_cast<size_t>(column_) >= row_.size()) {
        return refused(fmt::format("has {} fields, expected {} as the first row has.", row_.size(), columns_));
      }
      record_ = std::move(row_[static_cast<size_t>(column_)]);
      if (!record_.empty()) return TextPart{record_, true, true};
    }
  }

 private:
  tl::unexpected<std::string> refused(const std::string& why) const {
    return tl::unexpected(fmt::format("{}: the row that begins at line {} {}", text_.name(), row_line_, why));
  }

  tl::expected<void, std::string> find_column() {
    const auto found = std::ranges::find(row_, field_);
    if (found == row_.end()) {
      return tl::unexpected(
          fmt::format("{}: its first row has no field \"{}\"; it has {}. Name the field of the text with --field.",
                      text_.name(), field_, fmt::format("\"{}\"", fmt::join(row_, "\", \"")).substr(0, 300)));
    }
    column_ = found - row_.begin();
    columns_ = row_.size();
    return {};
  }

  // The next character; -1 at the end.
  tl::expected<int, std::string> take() {
    if (piece_.empty()) {
      const auto more = text_.next();
      if (!more) return tl::unexpected(more.error());
      piece_ = *more;
      if (piece_.empty()) return -1;
    }
    const char next = piece_.front();
    piece_.remove_prefix(1);
    line_ += next == '\n' ? 1 : 0;
    return static_cast<unsigned char>(next);
  }

  // Into row_; false at the end of the file.
  tl::expected<bool, std::string> next_row() {
    row_.assign(1, {});
    row_line_ = line_;
    bool quoted = false, was_quoted = false, begun = false;
    size_t bytes = 0;
    for (;;) {
      const auto next = take();
      if (!next) return tl::unexpected(next.error());
      if (*next < 0) {
        if (quoted) return refused("has a quote that is never closed.");
        return begun;
      }
      begun = true;
      const char character = static_cast<char>(*next);
      if (++bytes > kLongestRecord)
        return refused(fmt::format("has more than {} bytes, expected at most so many. Is a quote not closed?", kLongestRecord));
      if (quoted) {
        quoted = character != '"';
        was_quoted = !quoted;
        if (quoted) row_.back() += character;
      } else if (character == '"' && has_quotes_ && (row_.back().empty() || was_quoted)) {
        if (was_quoted) row_.back() += '"';  // two quotes are one
        quoted = true;
        was_quoted = false;
      } else if (character == delimiter_) {
        if (row_.size() == kMostFields) return refused(fmt::format("has more than {} fields.", kMostFields));
        row_.emplace_back();
        was_quoted = false;
      } else if (character == '\n') {
        return true;
      } else if (character != '\r') {
        row_.back() += character;
      }
    }
  }

  static constexpr size_t kMostFields = 10'000;
  CheckedText& text_;
  std::string field_, record_;
  char delimiter_;
  bool has_quotes_;
  std::string_view piece_;
  std::vector<std::string> row_;
  std::ptrdiff_t column_ = -1;  // of the field; -1: the first row was not read yet
  size_t columns_ = 0;
  int64_t line_ = 1, row_line_ = 1;
};

}  // namespace

std::unique_ptr<RecordReader> read_delimited_rows(CheckedText& text, const std::string& field, char delimiter) {
  return std::make_unique<DelimitedRows>(text, field, delimiter);
}

}  // namespace holdfast::model

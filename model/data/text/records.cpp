#include "model/data/text/records.h"

#include <fmt/format.h>

#include "model/data/text/delimited_rows.h"
#include "model/data/text/json_lines.h"
#include "model/data/text/wiki_dump.h"

namespace holdfast::model {
namespace {

// A plain file's text, as one record.
class PlainRecord final : public RecordReader {
 public:
  PlainRecord(CheckedText& text, bool whole) : text_(text), whole_(whole) {}

  tl::expected<std::optional<TextPart>, std::string> next() override {
    if (ended_) return std::nullopt;
    TextPart part{.text = {}, .begins = !begun_, .ends = false};
    begun_ = true;
    auto piece = text_.next();
    if (!piece) return tl::unexpected(piece.error());
    if (!whole_ || !part.begins) return of_piece(part, *piece);
    for (; piece && !piece->empty() && gathered_.size() + piece->size() <= kLongestRecord; piece = text_.next())
      gathered_ += *piece;
    if (!piece) return tl::unexpected(piece.error());
    ended_ = piece->empty();
    gathered_ += *piece;
    part.text = gathered_;
    part.ends = ended_;
    return part;
  }

 private:
  tl::expected<std::optional<TextPart>, std::string> of_piece(TextPart part, std::string_view piece) {
    gathered_.clear();
    gathered_.shrink_to_fit();
    ended_ = piece.empty();
    part.text = piece;
    part.ends = ended_;
    return part;
  }
  CheckedText& text_;
  bool whole_, begun_ = false, ended_ = false;
  std::string gathered_;
};

}  // namespace

tl::expected<std::unique_ptr<RecordReader>, std::string> read_records(CheckedText& text, const RecordOptions& options) {
  const std::string_view name = text.name();
  if (name.ends_with(".parquet")) {
    return tl::unexpected(fmt::format(
        "{}: is a Parquet file, which is not read (Debian has no library for it). Write its texts as .jsonl, for example "
        "`duckdb -c \"COPY (SELECT {} FROM '{}') TO 'texts.jsonl'\"`.",
        name, options.field, name));
  }
  if (name.ends_with(".jsonl") || name.ends_with(".ndjson")) return read_json_lines(text, options.field);
  if (name.ends_with(".csv")) return read_delimited_rows(text, options.field, ',');
  if (name.ends_with(".tsv")) return read_delimited_rows(text, options.field, '\t');
  if (name.ends_with(".xml")) {
    const auto beginning = text.peek();
    if (!beginning) return tl::unexpected(beginning.error());
    if (beginning->substr(0, 4096).find("<mediawiki") != std::string_view::npos) return read_wiki_dump(text);
  }
  return std::make_unique<PlainRecord>(text, options.whole);
}

}  // namespace holdfast::model

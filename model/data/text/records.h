// The texts that a file holds: a plain file is one, a .jsonl file one a line, a .csv or .tsv file one a row, a dump of
// Wikipedia one an article. A name's last ending says which; a dump is known by its .xml and its first element.
//
// Promises: memory is bounded by kLongestRecord, and for plain files by less; a text goes through as it is, but for an article,
// whose markup is taken off (wikitext.h). Refuses: a line or row that is broken or has no such field, with the file, the line
// and the fields that are there; a text of more than kLongestRecord bytes, but for a plain file's; Parquet, for which Debian
// has no library.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <tl/expected.hpp>

#include "model/data/text/checked_text.h"

namespace holdfast::model {

inline constexpr size_t kLongestRecord = 64 << 20;

// A part of a record, in order. Stays until the next one is asked for.
struct TextPart {
  std::string_view text;
  bool begins = false, ends = false;  // its record; a record that comes whole does both
};

struct RecordOptions {
  std::string field = "text";  // of .jsonl, .csv and .tsv files
  bool whole = false;          // a plain file of up to kLongestRecord bytes comes as one part
};

class RecordReader {
 public:
  virtual ~RecordReader() = default;
  // Nothing at the end of the file.
  virtual tl::expected<std::optional<TextPart>, std::string> next() = 0;
};

// Of the file that `text` reads, which outlives the reader.
tl::expected<std::unique_ptr<RecordReader>, std::string> read_records(CheckedText& text, const RecordOptions& options);

}  // namespace holdfast::model

// All documents of a data set in order, a few at a time in memory.
// Refuses: what ArchiveReader, CheckedText and read_records refuse.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "model/data/text/archive_reader.h"
#include "model/data/text/checked_text.h"
#include "model/data/text/documents.h"
#include "model/data/text/records.h"

namespace holdfast::model {

struct Document {
  std::string text;
  int64_t record = 0, index = 0;  // its text's number, through all files from 1; its own in that text
};

class DocumentReader {
 public:
  // Whether a record is kept: asked once for each that comes whole (RecordOptions), in order; the others are.
  using Keep = std::function<bool(int64_t record, std::string_view text)>;
  DocumentReader(std::vector<std::string> files, RecordOptions options, Keep keep = nullptr);

  tl::expected<bool, std::string> next(Document& document);  // false at the end
  int64_t records() const { return record_; }                // that began so far, kept or not
  int64_t text_bytes() const { return text_bytes_; }         // of those that are kept
  int64_t packed_bytes() const;                              // of the files on disk

 private:
  tl::expected<bool, std::string> next_part();  // into the cutter; false at the end of all
  tl::expected<bool, std::string> next_file();

  std::vector<std::string> files_;
  RecordOptions options_;
  Keep keep_;
  size_t file_ = 0;  // the next to be opened
  std::unique_ptr<ArchiveReader> archive_;
  std::unique_ptr<CheckedText> text_;
  std::unique_ptr<RecordReader> records_;
  DocumentCutter cutter_;
  int64_t record_ = 0, index_ = 0, text_bytes_ = 0, packed_before_ = 0;
  bool is_kept_ = true;  // the record at hand
};

}  // namespace holdfast::model

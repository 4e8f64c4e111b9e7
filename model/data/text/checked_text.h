// The text of a file, in pieces that end where characters do. A byte-order mark at its start is dropped.
// Refuses: what is no UTF-8 text, with the file, the byte offset and what to do.
#pragma once

#include <string>
#include <string_view>
#include <tl/expected.hpp>

#include "model/data/text/archive_reader.h"

namespace holdfast::model {

class CheckedText {
 public:
  // `archive` stands at a file, whose name for people is `name`, and outlives this.
  CheckedText(ArchiveReader& archive, std::string name) : archive_(archive), name_(std::move(name)) {}

  // Stays until the next call; empty at the end.
  tl::expected<std::string_view, std::string> next();
  // The same piece comes again by `next`.
  tl::expected<std::string_view, std::string> peek();
  const std::string& name() const { return name_; }

 private:
  tl::unexpected<std::string> no_text(size_t at) const;

  ArchiveReader& archive_;
  std::string name_;
  std::string piece_;
  size_t given_ = 0;    // bytes at the beginning of piece_ that were given out
  int64_t offset_ = 0;  // of piece_ in the file
  bool begun_ = false;
  std::string_view peeked_;
};

}  // namespace holdfast::model

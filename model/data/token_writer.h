// Writes a token file, as a NewFile: it takes its name when it is published.
// Refuses: what NewFile refuses; more tokens than the format can count, with the path.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <tl/expected.hpp>

#include "model/data/new_file.h"

namespace holdfast::model {

// Of a file with so many tokens.
int64_t token_file_bytes(int64_t tokens, const std::string& format);

class TokenWriter {
 public:
  // `format`: "nanogpt" or "llm.c" (token_file.h). `kept`: tokens of an earlier process to go on from, which has called keep.
  TokenWriter(std::string path, const std::string& format, std::optional<int64_t> kept = std::nullopt);

  void add(std::span<const int32_t> ids);  // ids below 65536
  int64_t tokens() const { return tokens_; }

  tl::expected<void, std::string> state() const { return file_.state(); }
  // Durable so far (NewFile).
  tl::expected<void, std::string> keep() { return file_.keep(); }
  // As NewFile: whole under its temporary name, then under its final one.
  tl::expected<void, std::string> finish();
  tl::expected<void, std::string> publish() { return file_.publish(); }
  const NewFile& file() const { return file_; }

 private:
  NewFile file_;
  bool has_header_;
  int64_t tokens_ = 0;
};

}  // namespace holdfast::model

// Writes a token file beside its final name and renames it once whole: a reader never sees half a file.
// Refuses: a full disk, a folder that cannot be written, more tokens than the format can count; each with the path.
#pragma once

#include <cstdint>
#include <cstdio>
#include <memory>
#include <span>
#include <string>
#include <tl/expected.hpp>

namespace holdfast::model {

class TokenWriter {
 public:
  // `format`: "nanogpt" or "llm.c" (token_file.h). The temporary file is `path` + ".tmp".
  TokenWriter(std::string path, const std::string& format);
  ~TokenWriter();  // removes the temporary file unless finished
  TokenWriter(const TokenWriter&) = delete;
  TokenWriter& operator=(const TokenWriter&) = delete;

  void add(std::span<const int32_t> ids);  // ids below 65536
  int64_t tokens() const { return tokens_; }

  // Durable under its final name, or the first error since the start.
  tl::expected<void, std::string> finish();

 private:
  void write(const void* bytes, size_t count);

  std::string path_, temporary_;
  bool has_header_;
  std::FILE* file_;
  int64_t tokens_ = 0;
  int error_ = 0;  // errno of the first failure
};

// A small file, the same way.
tl::expected<void, std::string> write_whole_file(const std::string& path, const std::string& bytes);

}  // namespace holdfast::model

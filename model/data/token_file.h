// A file of token ids: nanoGPT's .bin (raw little-endian uint16) or llm.c's (256 int32 header: magic 20240520, version 1,
// number of tokens; then uint16), told apart by the header. Vocabularies above 65,536 do not fit either: prepare refuses.
//
// Promises: opened once, memory-mapped, never written. `check_ids` reads every id once.
// Refuses: a missing, empty, odd-sized or truncated file; an id at or above vocab_size: each with the file and byte offset.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <tl/expected.hpp>

namespace holdfast::model {

class TokenFile {
 public:
  // The error is a sentence for the user: the path, what is wrong, what was expected.
  static tl::expected<std::shared_ptr<const TokenFile>, std::string> open(const std::string& path);
  virtual ~TokenFile() = default;

  virtual const std::string& path() const = 0;
  virtual const char* format() const = 0;  // "nanogpt" or "llm.c"
  virtual std::span<const uint16_t> tokens() const = 0;
  // "file.bin: token 50300 at byte 1234 (token 617) is not below vocab_size 50257: ..."
  virtual tl::expected<void, std::string> check_ids(int64_t vocab_size) const = 0;
  // XXH3-128 of all ids, hex, with their number in front: "1234567-0123…". Same ids in either format: same digest.
  virtual std::string digest() const = 0;
};

}  // namespace holdfast::model

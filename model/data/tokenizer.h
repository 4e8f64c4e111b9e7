// Text to ids and back. Two kinds: SentencePiece (BPE with byte fallback: any text in any language goes through) and
// bytes (id = byte, vocabulary 256).
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <vector>

namespace holdfast::model {

class Tokenizer {
 public:
  virtual ~Tokenizer() = default;
  virtual int64_t vocab_size() const = 0;
  virtual std::vector<int32_t> encode(std::string_view text) const = 0;
  // Never fails: ids that are no token (a model's vocabulary may be larger than its tokenizer's) become U+FFFD.
  virtual std::string decode(const std::vector<int32_t>& ids) const = 0;

  // `path`: a folder that `prepare` wrote, or a tokenizer.model / tokenizer.json file in it.
  static tl::expected<std::unique_ptr<Tokenizer>, std::string> load(const std::string& path);
};

struct PrepareOptions {
  std::vector<std::string> inputs;  // files or folders of UTF-8 text; .gz is read too
  std::string output;               // folder: train.bin, val.bin, tokenizer.model or tokenizer.json, info.json
  std::string tokenizer = "bpe";    // bpe | bytes | path of an existing tokenizer
  int64_t vocab_size = 8192;        // for bpe
  double validation_fraction = 0.05;
  std::string format = "nanogpt";   // nanogpt | llm.c
  uint64_t seed = 0;
};
struct PrepareReport {
  int64_t files = 0, bytes = 0, train_tokens = 0, validation_tokens = 0, vocab_size = 0;
};
// Documents (files, cut at blank lines where they are long) go to train or validation by a hash of their text, so adding a file moves no other.
tl::expected<PrepareReport, std::string> prepare(const PrepareOptions& options);

}  // namespace holdfast::model

// Text to ids and back. Three kinds: SentencePiece (BPE with byte fallback: any text in any language goes through), GPT-2's
// byte-level BPE, and bytes (id = byte, vocabulary 256).
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
  // Ids of valid UTF-8 text. decode(encode(text)) is text, byte for byte, for tokenizers that prepare made.
  virtual std::vector<int32_t> encode(std::string_view text) const = 0;
  // Valid UTF-8, and never fails: ids that are no token (a model's vocabulary may be larger than its tokenizer's) and
  // bytes that form no character become U+FFFD; the end-of-document id becomes nothing.
  std::string decode(const std::vector<int32_t>& ids) const;

  // The bytes that an id stands for: perhaps a part of a character only.
  virtual std::string token_bytes(int32_t id) const = 0;
  // The id between documents; -1 where the tokenizer has none.
  virtual int32_t end_of_document() const = 0;
  // "bpe", "gpt2" or "bytes", and what `load` reads again: the file's name in a prepared folder, and its bytes.
  virtual const char* kind() const = 0;
  virtual const char* file_name() const = 0;
  virtual const std::string& file_bytes() const = 0;

  // `path`: a folder that `prepare` wrote, or a tokenizer.model / tokenizer.json file in it; GPT-2's vocabulary in one of the
  // forms of byte_pairs/vocabulary_files.h, and with "gpt2:" before it nothing else.
  static tl::expected<std::unique_ptr<Tokenizer>, std::string> load(const std::string& path);
};

// Text from ids that come one at a time: holds back the bytes of a character until it is whole.
class TextStream {
 public:
  explicit TextStream(const Tokenizer& tokenizer) : tokenizer_(tokenizer) {}
  std::string add(int32_t id);  // the text that can be shown now; often empty, always valid UTF-8
  std::string finish();         // U+FFFD for a character that never became whole

 private:
  const Tokenizer& tokenizer_;
  std::string pending_;
};

struct PrepareOptions {
  std::vector<std::string> inputs;    // files or folders of UTF-8 text; .gz is read too
  std::string output;                 // folder: train.bin, val.bin, tokenizer.model or tokenizer.json, info.json
  std::string tokenizer = "bpe";      // bpe | bytes | path of an existing tokenizer
  int64_t vocab_size = 8192;          // for bpe
  double validation_fraction = 0.05;  // 0: no val.bin
  std::string format = "nanogpt";     // nanogpt | llm.c
  uint64_t seed = 0;
};
struct PrepareReport {
  int64_t files = 0, bytes = 0, train_tokens = 0, validation_tokens = 0, vocab_size = 0;
};
// Documents (files, cut at blank lines where they are long) go to train or validation by a hash of their text, so adding a
// file moves no other, but for one case: where no document's hash falls to validation, the one that comes nearest is held out
// all the same, and a file that is added moves it to training if it brings one that comes nearer (documents.h).
// The end-of-document id follows a document unless the one written next continues it. The same input and options give the
// same files, bit for bit.
// A run that fails leaves the folder as it was. The files of one that succeeds are written beside those of an earlier run and
// take their place at the end, info.json last: a run that is killed while it renames leaves a folder without info.json.
// The tokenizer is trained on training text only, on at most kTokenizerTrainingBytes of it: all, or documents spread evenly.
// (Measured on 6 MB of Chinese manual pages: trained on a quarter the text takes 1.5% more tokens than trained on all of
// it, and training takes a tenth of the time; the library's BPE trainer is far from linear.)
constexpr int64_t kTokenizerTrainingBytes = 4 << 20;
tl::expected<PrepareReport, std::string> prepare(const PrepareOptions& options);

}  // namespace holdfast::model

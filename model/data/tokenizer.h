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
  // Bytes at the end of `text` whose ids depend on what follows. Where that is left out and put before what follows, both
  // encoded one after the other are the whole. A tokenizer whose every id does says 0, and a text that is cut is encoded as its
  // pieces are.
  virtual size_t undecided_bytes(std::string_view /*text*/) const { return 0; }
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

}  // namespace holdfast::model

#include "model/data/byte_pairs/tokenizer.h"

#include <algorithm>
#include <utility>

#include "model/data/byte_pairs/encoder.h"
#include "model/data/byte_pairs/vocabulary_files.h"
#include "model/data/byte_pairs/words.h"

namespace holdfast::model {
namespace {

class BytePairTokenizer final : public Tokenizer {
 public:
  explicit BytePairTokenizer(BytePairVocabulary vocabulary)
      : vocabulary_(std::move(vocabulary)), encoder_(vocabulary_), file_(to_tokenizer_json(vocabulary_)) {}

  int64_t vocab_size() const override { return static_cast<int64_t>(vocabulary_.tokens.size()); }
  int32_t end_of_document() const override { return vocabulary_.end_of_text; }
  const char* kind() const override { return "gpt2"; }
  const char* file_name() const override { return "tokenizer.json"; }
  const std::string& file_bytes() const override { return file_; }

  std::vector<int32_t> encode(std::string_view text) const override {
    std::vector<int32_t> ids;
    ids.reserve(text.size() / 3);
    while (!text.empty()) {
      const size_t length = word_length(text);
      encoder_.append(text.substr(0, length), ids);
      text.remove_prefix(length);
    }
    return ids;
  }

  size_t undecided_bytes(std::string_view text) const override { return undecided_end(text); }

  std::string token_bytes(int32_t id) const override {
    if (id < 0 || id >= vocab_size()) return "\xEF\xBF\xBD";
    if (id == vocabulary_.end_of_text) return "";
    return vocabulary_.tokens[static_cast<size_t>(id)];
  }

 private:
  BytePairVocabulary vocabulary_;
  BytePairEncoder encoder_;
  std::string file_;
};

}  // namespace

std::unique_ptr<Tokenizer> make_byte_pair_tokenizer(BytePairVocabulary vocabulary) {
  return std::make_unique<BytePairTokenizer>(std::move(vocabulary));
}

}  // namespace holdfast::model

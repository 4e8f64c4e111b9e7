#include "model/data/tokenizer.h"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>

#include "model/data/byte_pairs/tokenizer.h"
#include "model/data/byte_pairs/vocabulary_files.h"
#include "model/data/byte_tokenizer.h"
#include "model/data/sentencepiece_tokenizer.h"
#include "model/data/small_file.h"
#include "model/data/utf8.h"
#include "storage/json/outside_json.h"

namespace holdfast::model {

namespace {

namespace fs = std::filesystem;

class ByteTokenizer final : public Tokenizer {
 public:
  int64_t vocab_size() const override { return 256; }
  int32_t end_of_document() const override { return -1; }
  const char* kind() const override { return "bytes"; }
  const char* file_name() const override { return "tokenizer.json"; }
  const std::string& file_bytes() const override {
    static const std::string bytes = "{\"type\": \"bytes\", \"vocab_size\": 256}\n";
    return bytes;
  }
  std::vector<int32_t> encode(std::string_view text) const override {
    std::vector<int32_t> ids;
    ids.reserve(text.size());
    for (const char byte : text) ids.push_back(static_cast<unsigned char>(byte));
    return ids;
  }
  std::string token_bytes(int32_t id) const override {
    return id >= 0 && id < 256 ? std::string(1, static_cast<char>(id)) : "\xEF\xBF\xBD";
  }
};

constexpr std::string_view kBytePairPrefix = "gpt2:";

using Loaded = tl::expected<std::unique_ptr<Tokenizer>, std::string>;

Loaded load_json(const std::string& bytes, const std::string& path) {
  const nlohmann::json description = storage::parse_json(bytes).json;
  if (description.is_object() && description.value("type", nlohmann::json()) == "bytes") return make_byte_tokenizer();
  if (description.is_object() && description.contains("model")) {
    return parse_tokenizer_json(bytes, path).map([](BytePairVocabulary read) {
      return make_byte_pair_tokenizer(std::move(read));
    });
  }
  return tl::unexpected(path +
                        ": is not a tokenizer that is known here: expected {\"type\": \"bytes\", \"vocab_size\": 256}, or "
                        "GPT-2's tokenizer.json.");
}

Loaded load_byte_pairs(const std::string& path) {
  return read_byte_pairs(path).map([](BytePairVocabulary read) { return make_byte_pair_tokenizer(std::move(read)); });
}

Loaded load_file(const fs::path& file) {
  if (file.extension() == ".tiktoken") return load_byte_pairs(file.string());
  return read_small_file(file.string()).and_then([&](std::string bytes) {
    return file.extension() == ".json" ? load_json(bytes, file.string()) : load_sentencepiece(std::move(bytes), file.string());
  });
}

}  // namespace

std::unique_ptr<Tokenizer> make_byte_tokenizer() {
  return std::make_unique<ByteTokenizer>();
}

std::string Tokenizer::decode(const std::vector<int32_t>& ids) const {
  std::string bytes;
  for (const int32_t id : ids) bytes += token_bytes(id);
  return replace_invalid_utf8(bytes);
}

tl::expected<std::unique_ptr<Tokenizer>, std::string> Tokenizer::load(const std::string& path) {
  if (path.starts_with(kBytePairPrefix)) return load_byte_pairs(path.substr(kBytePairPrefix.size()));
  std::error_code error;
  if (!fs::exists(path, error)) {
    return tl::unexpected(path +
                          ": no such file or folder, expected a tokenizer or a folder that `holdfast data prepare` wrote.");
  }
  if (!fs::is_directory(path)) return load_file(path);
  for (const char* name : {"tokenizer.model", "tokenizer.json"}) {
    if (fs::exists(fs::path(path) / name)) return load_file(fs::path(path) / name);
  }
  return load_byte_pairs(path);
}

std::string TextStream::add(int32_t id) {
  pending_ += tokenizer_.token_bytes(id);
  // All but a last character that may still become whole: it has at most 3 bytes yet.
  size_t held = std::min<size_t>(3, pending_.size());
  while (held > 0 && !is_utf8_prefix(std::string_view(pending_).substr(pending_.size() - held))) --held;
  std::string text = replace_invalid_utf8(std::string_view(pending_).substr(0, pending_.size() - held));
  pending_.erase(0, pending_.size() - held);
  return text;
}

std::string TextStream::finish() {
  return replace_invalid_utf8(std::exchange(pending_, {}));
}

}  // namespace holdfast::model

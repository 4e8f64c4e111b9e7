#include "model/data/tokenizer.h"

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <system_error>
#include <utility>

#include "model/data/byte_tokenizer.h"
#include "model/data/sentencepiece_tokenizer.h"
#include "model/data/utf8.h"

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

tl::expected<std::string, std::string> read_file(const fs::path& path) {
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  std::ostringstream bytes;
  if (!file || !(bytes << file.rdbuf())) {
    return tl::unexpected(path.string() + ": cannot be read: " + std::generic_category().message(errno));
  }
  return bytes.str();
}

tl::expected<std::unique_ptr<Tokenizer>, std::string> load_json(const std::string& bytes, const std::string& path) {
  const nlohmann::json description = nlohmann::json::parse(bytes, nullptr, false);
  if (!description.is_object() || description.value("type", nlohmann::json()) != "bytes") {
    return tl::unexpected(path + ": is not a tokenizer of ours: expected {\"type\": \"bytes\", \"vocab_size\": 256}.");
  }
  return make_byte_tokenizer();
}

tl::expected<fs::path, std::string> tokenizer_file_in(const fs::path& folder) {
  for (const char* name : {"tokenizer.model", "tokenizer.json"}) {
    if (fs::exists(folder / name)) return folder / name;
  }
  return tl::unexpected(folder.string() +
                        ": has neither tokenizer.model nor tokenizer.json. Give a folder that `holdfast data prepare` wrote.");
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
  fs::path file = path;
  std::error_code error;
  if (!fs::exists(file, error)) {
    return tl::unexpected(path +
                          ": no such file or folder, expected a tokenizer or a folder that `holdfast data prepare` wrote.");
  }
  if (fs::is_directory(file)) {
    const auto found = tokenizer_file_in(file);
    if (!found) return tl::unexpected(found.error());
    file = *found;
  }
  tl::expected<std::string, std::string> bytes = read_file(file);
  if (!bytes) return tl::unexpected(bytes.error());
  if (file.extension() == ".json") return load_json(*bytes, file.string());
  return load_sentencepiece(std::move(*bytes), file.string());
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

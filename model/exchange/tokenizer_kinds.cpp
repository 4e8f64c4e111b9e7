#include "model/exchange/tokenizer_kinds.h"

#include <fmt/format.h>

#include <array>
#include <cctype>
#include <nlohmann/json.hpp>
#include <string_view>

#include "model/data/sentencepiece_tokenizer.h"

namespace holdfast::model {

namespace {

using nlohmann::ordered_json;

// llama.cpp's types of tokens.
enum GgufType : int32_t { kNormal = 1, kUnknown = 2, kControl = 3, kUnused = 5, kByte = 6 };

ordered_json tokenizer_config(const char* name, int64_t positions) {
  return {{"tokenizer_class", name}, {"model_max_length", positions}, {"clean_up_tokenization_spaces", false}};
}

// --- SentencePiece

std::vector<TextFile> sentencepiece_files(const Tokenizer& tokenizer, int64_t positions) {
  const std::vector<SentencePiecePiece> pieces = sentencepiece_pieces(tokenizer.file_bytes());
  ordered_json config = tokenizer_config("LlamaTokenizer", positions);
  const int32_t end = tokenizer.end_of_document();
  config.update({{"legacy", false}, {"add_prefix_space", false}, {"add_bos_token", false}, {"add_eos_token", false}});
  config["bos_token"] = end < 0 ? ordered_json(nullptr) : ordered_json(pieces[static_cast<size_t>(end)].text);
  config["eos_token"] = config["bos_token"];
  config["unk_token"] = "<unk>";
  return {{tokenizer.file_name(), tokenizer.file_bytes()}, {"tokenizer_config.json", config.dump(2) + "\n"}};
}

GgufTokenizer sentencepiece_for_gguf(const Tokenizer& tokenizer) {
  GgufTokenizer found;
  found.model = "llama";
  found.pre = "default";
  found.end_of_document = tokenizer.end_of_document();
  for (const SentencePiecePiece& piece : sentencepiece_pieces(tokenizer.file_bytes())) {
    using enum SentencePiecePiece::Kind;
    if (piece.kind == kUnknown) found.unknown = static_cast<int32_t>(found.tokens.size());
    const std::array<GgufType, 5> type = {GgufType::kNormal, GgufType::kUnknown, GgufType::kControl, GgufType::kByte,
                                          GgufType::kUnused};
    found.tokens.push_back(piece.text);
    found.scores.push_back(piece.score);
    found.types.push_back(type[static_cast<size_t>(piece.kind)]);
  }
  return found;
}

// --- bytes

// GPT-2's byte-level alphabet: a printable character for each byte, its own where it has one.
std::string byte_level_character(int byte) {
  const auto is_itself = [](int b) { return (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174; };
  int code = byte;
  if (!is_itself(byte)) {
    code = 256;
    for (int before = 0; before < byte; ++before) code += is_itself(before) ? 0 : 1;
  }
  if (code < 0x80) return {static_cast<char>(code)};
  return {static_cast<char>(0xC0 | (code >> 6)), static_cast<char>(0x80 | (code & 0x3F))};
}

// BPE over GPT-2's alphabet without a merge.
std::vector<TextFile> byte_files(const Tokenizer& tokenizer, int64_t positions) {
  ordered_json vocabulary = ordered_json::object();
  for (int byte = 0; byte < 256; ++byte) vocabulary[byte_level_character(byte)] = byte;
  const ordered_json byte_level = {
      {"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", false}};
  const ordered_json whole = {{"version", "1.0"},
                              {"truncation", nullptr},
                              {"padding", nullptr},
                              {"added_tokens", ordered_json::array()},
                              {"normalizer", nullptr},
                              {"pre_tokenizer", byte_level},
                              {"post_processor", nullptr},
                              {"decoder", byte_level},
                              {"model",
                               {{"type", "BPE"},
                                {"dropout", nullptr},
                                {"unk_token", nullptr},
                                {"continuing_subword_prefix", nullptr},
                                {"end_of_word_suffix", nullptr},
                                {"fuse_unk", false},
                                {"byte_fallback", false},
                                {"vocab", vocabulary},
                                {"merges", ordered_json::array()}}}};
  return {{tokenizer.file_name(), whole.dump(1) + "\n"},
          {"tokenizer_config.json", tokenizer_config("PreTrainedTokenizerFast", positions).dump(2) + "\n"}};
}

// RWKV's kind: the longest token that fits, whose bytes may be written as \x0a, and no special tokens. With llama.cpp's other
// kinds some bytes would be the beginning and the end of a text.
GgufTokenizer bytes_for_gguf(const Tokenizer&) {
  GgufTokenizer found;
  found.model = "rwkv";
  for (int byte = 0; byte < 256; ++byte) {
    const bool is_plain = std::isalnum(byte) != 0;
    found.tokens.push_back(is_plain ? std::string(1, static_cast<char>(byte)) : fmt::format("\\x{:02x}", byte));
    found.types.push_back(GgufType::kNormal);
  }
  return found;
}

struct Kind {
  const char* name;  // Tokenizer::kind()
  std::vector<TextFile> (*hugging_face)(const Tokenizer& tokenizer, int64_t positions);
  GgufTokenizer (*gguf)(const Tokenizer& tokenizer);
};
constexpr Kind kKinds[] = {
    {"bpe", sentencepiece_files, sentencepiece_for_gguf},
    {"bytes", byte_files, bytes_for_gguf},
};

tl::expected<const Kind*, std::string> kind_of(const Tokenizer& tokenizer) {
  for (const Kind& kind : kKinds) {
    if (std::string_view(kind.name) == tokenizer.kind()) return &kind;
  }
  return tl::unexpected(fmt::format("a tokenizer of the kind \"{}\" cannot be written for other programs", tokenizer.kind()));
}

}  // namespace

tl::expected<std::vector<TextFile>, std::string> hugging_face_tokenizer(const Tokenizer& tokenizer, int64_t positions) {
  return kind_of(tokenizer).map([&](const Kind* kind) { return kind->hugging_face(tokenizer, positions); });
}

tl::expected<GgufTokenizer, std::string> gguf_tokenizer(const Tokenizer& tokenizer, int64_t vocab_size) {
  return kind_of(tokenizer).map([&](const Kind* kind) {
    GgufTokenizer found = kind->gguf(tokenizer);
    while (static_cast<int64_t>(found.tokens.size()) < vocab_size) {
      if (!found.scores.empty()) found.scores.push_back(-1000.0F);
      found.types.push_back(GgufType::kUnused);
      found.tokens.push_back(fmt::format("[PAD{}]", found.tokens.size()));
    }
    return found;
  });
}

}  // namespace holdfast::model

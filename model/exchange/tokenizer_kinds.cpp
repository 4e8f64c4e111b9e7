#include "model/exchange/tokenizer_kinds.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <nlohmann/json.hpp>
#include <string_view>
#include <tuple>
#include <unordered_set>

#include "model/data/byte_pairs/visible_bytes.h"
#include "model/data/byte_pairs/vocabulary_files.h"
#include "model/data/sentencepiece_tokenizer.h"

namespace holdfast::model {

namespace {

using nlohmann::ordered_json;

// llama.cpp's types of tokens.
enum GgufType : int32_t { kNormal = 1, kUnknown = 2, kControl = 3, kUnused = 5, kByte = 6 };

// The file tokenizer.json of Hugging Face's tokenizers, for BPE of each kind.
struct FastTokenizer {
  ordered_json vocabulary = ordered_json::object(), merges = ordered_json::array();
  ordered_json special = ordered_json::array();  // tokens that no text has
  ordered_json normalizer, pre_tokenizer, decoder;
  bool has_byte_fallback = false;
};

std::string fast_tokenizer_json(const FastTokenizer& parts) {
  const ordered_json model = {{"type", "BPE"},
                              {"dropout", nullptr},
                              {"unk_token", nullptr},
                              {"continuing_subword_prefix", nullptr},
                              {"end_of_word_suffix", nullptr},
                              {"fuse_unk", false},
                              {"byte_fallback", parts.has_byte_fallback},
                              {"vocab", parts.vocabulary},
                              {"merges", parts.merges}};
  const ordered_json whole = {{"version", "1.0"},
                              {"truncation", nullptr},
                              {"padding", nullptr},
                              {"added_tokens", parts.special},
                              {"normalizer", parts.normalizer},
                              {"pre_tokenizer", parts.pre_tokenizer},
                              {"post_processor", nullptr},
                              {"decoder", parts.decoder},
                              {"model", model}};
  return whole.dump(1) + "\n";
}

// `end`: the token between documents; empty: there is none.
TextFile tokenizer_config(int64_t positions, const std::string& end) {
  ordered_json config = {
      {"tokenizer_class", "PreTrainedTokenizerFast"}, {"model_max_length", positions}, {"clean_up_tokenization_spaces", false}};
  if (!end.empty()) config.update({{"bos_token", end}, {"eos_token", end}});
  return {"tokenizer_config.json", config.dump(2) + "\n"};
}

// --- SentencePiece

constexpr const char* kSpaceMark = "\xE2\x96\x81";  // U+2581

ordered_json replace(const char* from, const char* to) {
  return {{"type", "Replace"}, {"pattern", {{"String", from}}}, {"content", to}};
}

// Each way to make a piece of two others, the piece with the highest score first: SentencePiece goes by the scores alone.
ordered_json merges_of(std::vector<SentencePiecePiece> pieces) {
  std::erase_if(pieces, [](const SentencePiecePiece& piece) { return piece.kind != SentencePiecePiece::Kind::kNormal; });
  std::ranges::sort(pieces, [](const SentencePiecePiece& a, const SentencePiecePiece& b) {
    return std::tie(b.score, a.text) < std::tie(a.score, b.text);
  });
  std::unordered_set<std::string> known;
  for (const SentencePiecePiece& piece : pieces) known.insert(piece.text);
  ordered_json merges = ordered_json::array();
  for (const SentencePiecePiece& piece : pieces) {
    for (size_t cut = piece.text.size(); cut-- > 1;) {
      const std::string left = piece.text.substr(0, cut), right = piece.text.substr(cut);
      if (known.contains(left) && known.contains(right)) merges.push_back(left + " " + right);
    }
  }
  return merges;
}

std::vector<TextFile> sentencepiece_files(const Tokenizer& tokenizer, int64_t positions) {
  const std::vector<SentencePiecePiece> pieces = sentencepiece_pieces(tokenizer.file_bytes());
  FastTokenizer parts;
  nlohmann::json vocabulary;  // by name, for an ordered object looks through all names for each
  for (size_t id = 0; id < pieces.size(); ++id) {
    vocabulary[pieces[id].text] = id;
    if (pieces[id].kind != SentencePiecePiece::Kind::kControl && pieces[id].kind != SentencePiecePiece::Kind::kUnknown)
      continue;
    parts.special.push_back({{"id", id},
                             {"content", pieces[id].text},
                             {"single_word", false},
                             {"lstrip", false},
                             {"rstrip", false},
                             {"normalized", false},
                             {"special", true}});
  }
  parts.vocabulary = ordered_json(vocabulary);
  parts.merges = merges_of(pieces);
  parts.normalizer = replace(" ", kSpaceMark);
  parts.decoder = {{"type", "Sequence"},
                   {"decoders", {replace(kSpaceMark, " "), {{"type", "ByteFallback"}}, {{"type", "Fuse"}}}}};
  parts.has_byte_fallback = true;
  const int32_t end = tokenizer.end_of_document();
  return {{tokenizer.file_name(), tokenizer.file_bytes()},
          {"tokenizer.json", fast_tokenizer_json(parts)},
          tokenizer_config(positions, end < 0 ? "" : pieces[static_cast<size_t>(end)].text)};
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

// BPE over GPT-2's alphabet without a merge.
std::vector<TextFile> byte_files(const Tokenizer& tokenizer, int64_t positions) {
  FastTokenizer parts;
  for (int byte = 0; byte < 256; ++byte) parts.vocabulary[visible_text(std::string(1, static_cast<char>(byte)))] = byte;
  parts.pre_tokenizer = {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", false}};
  parts.decoder = parts.pre_tokenizer;
  return {{tokenizer.file_name(), fast_tokenizer_json(parts)}, tokenizer_config(positions, "")};
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

// --- GPT-2's

std::vector<TextFile> gpt2_files(const Tokenizer& tokenizer, int64_t positions) {
  const BytePairVocabulary vocabulary = *parse_tokenizer_json(tokenizer.file_bytes(), tokenizer.file_name());
  std::string merges = "#version: 0.2\n";
  for (size_t i = 0; i < vocabulary.merges.size(); ++i) merges += merge_text(vocabulary, i) + "\n";
  const std::string ids = nlohmann::json::parse(tokenizer.file_bytes())["model"]["vocab"].dump();
  return {{tokenizer.file_name(), tokenizer.file_bytes()},
          {"vocab.json", ids + "\n"},
          {"merges.txt", merges},
          tokenizer_config(positions, vocabulary.end_of_text < 0 ? "" : kEndOfText)};
}

GgufTokenizer gpt2_for_gguf(const Tokenizer& tokenizer) {
  const BytePairVocabulary vocabulary = *parse_tokenizer_json(tokenizer.file_bytes(), tokenizer.file_name());
  GgufTokenizer found;
  found.model = "gpt2";
  found.pre = "gpt-2";
  found.end_of_document = vocabulary.end_of_text;
  for (size_t id = 0; id < vocabulary.tokens.size(); ++id) {
    const bool is_special = std::ranges::binary_search(vocabulary.special_ids, static_cast<int32_t>(id));
    found.tokens.push_back(is_special ? vocabulary.tokens[id] : visible_text(vocabulary.tokens[id]));
    found.types.push_back(is_special ? GgufType::kControl : GgufType::kNormal);
  }
  for (size_t i = 0; i < vocabulary.merges.size(); ++i) found.merges.push_back(merge_text(vocabulary, i));
  found.has_merges = true;
  return found;
}

struct Kind {
  const char* name;  // Tokenizer::kind()
  std::vector<TextFile> (*hugging_face)(const Tokenizer& tokenizer, int64_t positions);
  GgufTokenizer (*gguf)(const Tokenizer& tokenizer);
};
constexpr Kind kKinds[] = {
    {"bpe", sentencepiece_files, sentencepiece_for_gguf},
    {"gpt2", gpt2_files, gpt2_for_gguf},
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

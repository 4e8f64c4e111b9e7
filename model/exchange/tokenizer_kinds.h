// A tokenizer as other programs want it: Hugging Face's files, and llama.cpp's metadata. All that depends on a tokenizer's kind
// is in tokenizer_kinds.cpp, a row of its table for each kind.
//
// Promises: ids are those of the tokenizer, and the same text has the same ids there. But a U+2581 in a text becomes a space
// there where the kind is SentencePiece, and text that is written like a special token ("<|endoftext|>") may become that token.
// Refuses: a kind that is not in the table, in words.
#pragma once

#include <cstdint>
#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "model/data/tokenizer.h"

namespace holdfast::model {

struct TextFile {
  std::string name, bytes;
};

// Files for the folder of a model with `positions` positions.
tl::expected<std::vector<TextFile>, std::string> hugging_face_tokenizer(const Tokenizer& tokenizer, int64_t positions);

// The values of tokenizer.ggml.*. Ids below 0 are left out.
struct GgufTokenizer {
  std::string model;  // the kind, in llama.cpp's words
  std::string pre;    // the way in which text is cut before it is encoded; empty: left out
  std::vector<std::string> tokens;
  std::vector<float> scores;   // as many as tokens, or none
  std::vector<int32_t> types;  // as many as tokens
  std::vector<std::string> merges;
  bool has_merges = false;
  int32_t end_of_document = -1, unknown = -1;
};
// `vocab_size`: the model's. Ids that the tokenizer lacks become tokens "[PAD7]" that no text has, as llama.cpp's converters
// do. Precondition: the tokenizer has at most as many tokens.
tl::expected<GgufTokenizer, std::string> gguf_tokenizer(const Tokenizer& tokenizer, int64_t vocab_size);

}  // namespace holdfast::model

// BPE with byte fallback (Sennrich, Haddow, Birch 2016), by the SentencePiece library.
//
// Promises: text goes through byte for byte. No normalisation; spaces are kept as they are; every control character (new
// line and tab too) and every character that training left out is its UTF-8 bytes. The library writes a space as U+2581
// inside pieces, so a U+2581 in the text goes as bytes too, past the library.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <vector>

#include "model/data/tokenizer.h"

namespace holdfast::model {

// `model`: the bytes of a SentencePiece model; `origin` names them in errors.
tl::expected<std::unique_ptr<Tokenizer>, std::string> load_sentencepiece(std::string model, const std::string& origin);

// Trains a vocabulary of exactly `vocab_size` on `documents`: the bytes of a model, the same for the same input.
// The error says which sizes are possible.
tl::expected<std::string, std::string> train_sentencepiece(const std::vector<std::string>& documents, int64_t vocab_size);

// The vocabulary of a SentencePiece model by id, for programs that have it in files of their own.
struct SentencePiecePiece {
  enum class Kind : uint8_t { kNormal, kUnknown, kControl, kByte, kUnused };
  std::string text;  // as the model has it: a space is U+2581, a byte "<0x0A>"
  float score;       // of merges the one with the highest goes first
  Kind kind;
};
// Precondition: `model` are the bytes of one that load_sentencepiece takes.
std::vector<SentencePiecePiece> sentencepiece_pieces(const std::string& model);

}  // namespace holdfast::model

// BPE with byte fallback (Sennrich, Haddow, Birch 2016), by the SentencePiece library.
//
// Promises: text goes through byte for byte. No normalisation; spaces are kept as they are; every control character (new
// line and tab too) and every character that training left out is its UTF-8 bytes. The library writes a space as U+2581
// inside pieces, so a U+2581 in the text goes as bytes too, past the library.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <tl/expected.hpp>

#include "model/data/tokenizer.h"

namespace holdfast::model {

// `model`: the bytes of a SentencePiece model; `origin` names them in errors.
tl::expected<std::unique_ptr<Tokenizer>, std::string> load_sentencepiece(std::string model, const std::string& origin);

// Trains a vocabulary of exactly `vocab_size` on `documents`: the bytes of a model, the same for the same input.
// The error says which sizes are possible.
tl::expected<std::string, std::string> train_sentencepiece(const std::vector<std::string>& documents, int64_t vocab_size);

}  // namespace holdfast::model

// GPT-2's byte-level BPE: text is cut into words (words.h), and each word's bytes are merged (encoder.h).
//
// Promises: text goes through byte for byte; a special token's name in text is text like any other. The ids are those of
// OpenAI's tiktoken for the same vocabulary.
#pragma once

#include <memory>

#include "model/data/byte_pairs/vocabulary.h"
#include "model/data/tokenizer.h"

namespace holdfast::model {

std::unique_ptr<Tokenizer> make_byte_pair_tokenizer(BytePairVocabulary vocabulary);

}  // namespace holdfast::model

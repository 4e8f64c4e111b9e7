// Vocabularies of byte pairs as others publish them, and as a prepared folder keeps them.
//
// Refuses: what is no such vocabulary, or cuts text into other words than GPT-2 does, with the file, the place and what was
// expected. A file above kLongestVocabularyFile is not read.
#pragma once

#include <string>
#include <tl/expected.hpp>

#include "model/data/byte_pairs/vocabulary.h"

namespace holdfast::model {

// `path`: a tokenizer.json (Hugging Face's), a .tiktoken file (a line for each token: its bytes in base64, its rank), or a
// folder with tokenizer.json, with vocab.json and merges.txt, with encoder.json and vocab.bpe (OpenAI's names), or with one
// .tiktoken file.
tl::expected<BytePairVocabulary, std::string> read_byte_pairs(const std::string& path);

// `bytes`: a tokenizer.json; `origin` names it in errors.
tl::expected<BytePairVocabulary, std::string> parse_tokenizer_json(const std::string& bytes, const std::string& origin);

// The same vocabulary as a tokenizer.json that Hugging Face's tokenizers read: the same bytes wherever it came from.
std::string to_tokenizer_json(const BytePairVocabulary& vocabulary);

// The merges as merges.txt has them ("Ġ t"), in order.
std::string merge_text(const BytePairVocabulary& vocabulary, size_t merge);

}  // namespace holdfast::model

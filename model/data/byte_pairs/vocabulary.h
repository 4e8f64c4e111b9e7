// A vocabulary of byte pairs, as GPT-2's: each token a string of bytes, each merge two tokens that become a third.
//
// Promises: what `check` accepts holds text of any language, byte for byte.
#pragma once

#include <cstdint>
#include <string>
#include <tl/expected.hpp>
#include <vector>

namespace holdfast::model {

struct BytePairVocabulary {
  struct Merge {
    int32_t left, right, merged;
  };
  std::vector<std::string> tokens;   // their bytes, by id; of a special token its name
  std::vector<Merge> merges;         // the first is applied first
  std::vector<int32_t> special_ids;  // ascending; text never becomes one of these
  int32_t end_of_text = -1;          // the special token between documents, "<|endoftext|>"; -1: none
};

inline constexpr const char* kEndOfText = "<|endoftext|>";

// The error names the token or the merge: a byte that no token stands for, an empty token, a merge that does not make its
// token.
tl::expected<void, std::string> check(const BytePairVocabulary& vocabulary);

}  // namespace holdfast::model

// The words that GPT-2 cuts text into before it merges bytes, so that no token reaches over two of them. Its pattern (Radford
// et al. 2019, encoder.py):
//
//   's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
//
// Classes are those of Unicode as utf8proc has them; \s is the property White_Space.
#pragma once

#include <cstddef>
#include <string_view>

namespace holdfast::model {

// Bytes of the word at the beginning of `text`, which is valid UTF-8 and not empty.
size_t word_length(std::string_view text);

// Bytes of white space at the end of `text`: a word ends before it, whatever follows.
size_t trailing_space(std::string_view text);

}  // namespace holdfast::model

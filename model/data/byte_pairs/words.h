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

// Bytes at the end of `text`, valid UTF-8, that may be other words when more follows: its white space, or its last word. The
// words before stay as they are. At most kUndecidedMax: a longer end is taken as it is.
inline constexpr size_t kUndecidedMax = 64 << 10;
size_t undecided_end(std::string_view text);

}  // namespace holdfast::model

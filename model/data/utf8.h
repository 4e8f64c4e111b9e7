// UTF-8 (RFC 3629): shortest forms only, no surrogates, nothing above U+10FFFF.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace holdfast::model {

// Bytes of the character that starts at `text[0]`: 1 to 4; 0 when no valid character starts there.
size_t utf8_length(std::string_view text);

// Offset of the first byte that belongs to no valid character; npos when there is none.
size_t first_invalid_utf8(std::string_view text);

// True when `text` is the start of a character and the rest of it may still come.
bool is_utf8_prefix(std::string_view text);

// `text` with U+FFFD in place of every byte that belongs to no valid character.
std::string replace_invalid_utf8(std::string_view text);

}  // namespace holdfast::model

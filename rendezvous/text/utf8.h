// Characters of UTF-8 text, by libutf8proc: shortest forms only, no surrogates, Unicode's tables as that library has them.
#pragma once

#include <cstddef>
#include <string_view>

namespace holdfast::rendezvous {

struct Character {
  char32_t code = 0;  // of a byte that belongs to no character: the byte
  size_t bytes = 1;   // 1 to 4
  bool valid = false;
};

// The character that begins at `text[at]`; `at` lies in the text.
Character character_at(std::string_view text, size_t at);

// Columns of a terminal: wide characters (Chinese, emoji) take two, marks that join the character before them none. Everything
// below U+0300 takes one, also what is no character.
size_t columns_of(const Character& character);

}  // namespace holdfast::rendezvous

#include "rendezvous/text/utf8.h"

#include <utf8proc.h>

namespace holdfast::rendezvous {

Character character_at(std::string_view text, size_t at) {
  const auto* begin = reinterpret_cast<const utf8proc_uint8_t*>(text.data()) + at;
  utf8proc_int32_t code = 0;
  const utf8proc_ssize_t bytes = utf8proc_iterate(begin, static_cast<utf8proc_ssize_t>(text.size() - at), &code);
  if (bytes <= 0) return {*begin, 1, false};
  return {static_cast<char32_t>(code), static_cast<size_t>(bytes), true};
}

// The library gives spacing marks no column and the second half of a Korean syllable one; terminals do the opposite, as
// wcwidth(3).
size_t columns_of(const Character& character) {
  constexpr char32_t kFirstMark = 0x300, kFirstJoiningJamo = 0x1160, kLastJoiningJamo = 0x11FF;
  const auto code = static_cast<utf8proc_int32_t>(character.code);
  if (character.code < kFirstMark || utf8proc_category(code) == UTF8PROC_CATEGORY_MC) return 1;
  if (character.code >= kFirstJoiningJamo && character.code <= kLastJoiningJamo) return 0;
  return static_cast<size_t>(utf8proc_charwidth(code));
}

}  // namespace holdfast::rendezvous

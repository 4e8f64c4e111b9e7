#include "rendezvous/text/plain_text.h"

#include "rendezvous/text/utf8.h"

namespace holdfast::rendezvous {

bool has_control_characters(const std::string& text) {
  for (size_t at = 0; at < text.size();) {
    const Character character = character_at(text, at);
    const char32_t code = character.code;
    if (character.valid && (code < 0x20 || (code >= 0x7f && code < 0xa0))) return true;
    at += character.bytes;
  }
  return false;
}

}  // namespace holdfast::rendezvous

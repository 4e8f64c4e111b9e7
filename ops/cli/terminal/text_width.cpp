// Bytes that are no UTF-8 count as one column each: broken text has a width, too.
#include "ops/cli/terminal/text_width.h"

#include <sstream>

#include "rendezvous/text/utf8.h"

namespace holdfast::ops {

using rendezvous::Character;
using rendezvous::character_at;
using rendezvous::columns_of;

size_t columns(const std::string& text) {
  size_t sum = 0;
  for (size_t at = 0; at < text.size();) {
    const Character character = character_at(text, at);
    sum += columns_of(character);
    at += character.bytes;
  }
  return sum;
}

std::string cut_to(const std::string& text, size_t width) {
  if (columns(text) <= width) return text;
  std::string cut;
  size_t used = 0;
  for (size_t at = 0; at < text.size();) {
    const Character character = character_at(text, at);
    used += columns_of(character);
    if (used + 1 > width) break;
    cut += text.substr(at, character.bytes);
    at += character.bytes;
  }
  return width == 0 ? "" : cut + "…";
}

std::string padded(const std::string& text, size_t width, bool right) {
  const size_t used = columns(text);
  const std::string spaces(width > used ? width - used : 0, ' ');
  return right ? spaces + text : text + spaces;
}

std::string printable(const std::string& text) {
  std::string clean;
  for (size_t at = 0; at < text.size();) {
    const Character character = character_at(text, at);
    const bool control = character.code < 0x20 || character.code == 0x7F;
    const bool unsafe = !character.valid || (character.code >= 0x80 && character.code < 0xA0);
    if (character.code == '\n' || character.code == '\t' || character.code == '\r') {
      clean += ' ';
    } else if (control) {
      clean += '^';
      clean += static_cast<char>(character.code ^ 0x40U);
    } else {
      clean += unsafe ? "?" : text.substr(at, character.bytes);
    }
    at += character.bytes;
  }
  return clean;
}

std::vector<std::string> wrapped(const std::string& text, size_t width) {
  std::vector<std::string> lines;
  std::istringstream words(text);
  size_t used = 0;
  for (std::string word; words >> word;) {
    const size_t needed = columns(word);
    if (lines.empty() || used + 1 + needed > width) {
      lines.push_back(word);
      used = needed;
    } else {
      lines.back() += " " + word;
      used += 1 + needed;
    }
  }
  return lines;
}

}  // namespace holdfast::ops

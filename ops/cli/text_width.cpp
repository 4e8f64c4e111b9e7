// Bytes that are no UTF-8 count as one column each: broken text has a width, too.
#include "ops/cli/text_width.h"

#include <algorithm>
#include <iterator>
#include <sstream>

#include "ops/cli/text_width_table.h"

namespace holdfast::ops {
namespace {

struct Character {
  char32_t code;
  size_t bytes;
};

Character character_at(const std::string& text, size_t at) {
  const auto byte = static_cast<unsigned char>(text[at]);
  const size_t length = byte < 0x80 ? 1 : byte >= 0xF0 ? 4 : byte >= 0xE0 ? 3 : byte >= 0xC0 ? 2 : 1;
  if (at + length > text.size()) return {byte, 1};
  char32_t code = length == 1 ? byte : byte & (0xFFU >> (length + 1));
  for (size_t i = 1; i < length; ++i) {
    const auto next = static_cast<unsigned char>(text[at + i]);
    if ((next & 0xC0U) != 0x80U) return {byte, 1};
    code = (code << 6) | (next & 0x3FU);
  }
  return {code, length};
}

template <size_t N>
bool among(const CharacterRange (&ranges)[N], char32_t code) {
  const auto* after = std::ranges::upper_bound(ranges, code, {}, &CharacterRange::first);
  return after != std::begin(ranges) && code <= std::prev(after)->last;
}

size_t width_of(char32_t code) {
  if (code < 0x300) return 1;
  return among(kCharactersWithoutWidth, code) ? 0 : among(kWideCharacters, code) ? 2 : 1;
}

}  // namespace

size_t columns(const std::string& text) {
  size_t sum = 0;
  for (size_t at = 0; at < text.size();) {
    const Character character = character_at(text, at);
    sum += width_of(character.code);
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
    used += width_of(character.code);
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
    const bool second_control = character.bytes == 2 && character.code < 0xA0;  // U+0080 to U+009F
    if (character.code == '\n' || character.code == '\t' || character.code == '\r') {
      clean += ' ';
    } else if (control) {
      clean += '^';
      clean += static_cast<char>(character.code ^ 0x40U);
    } else {
      clean += second_control ? "?" : text.substr(at, character.bytes);
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

#include "model/data/byte_pairs/words.h"

#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <cstdint>

namespace holdfast::model {
namespace {

enum class Class : uint8_t { kLetter, kNumber, kSpace, kOther };

struct Character {
  Class its;
  size_t bytes;
};

bool is_white_space(int32_t code) {  // PropList.txt, White_Space
  return (code >= 0x09 && code <= 0x0D) || code == 0x20 || code == 0x85 || code == 0xA0 || code == 0x1680 ||
         (code >= 0x2000 && code <= 0x200A) || code == 0x2028 || code == 0x2029 || code == 0x202F || code == 0x205F ||
         code == 0x3000;
}

Class class_of(int32_t code) {
  if (is_white_space(code)) return Class::kSpace;
  const auto category = utf8proc_category(code);
  if (category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_LO) return Class::kLetter;
  if (category >= UTF8PROC_CATEGORY_ND && category <= UTF8PROC_CATEGORY_NO) return Class::kNumber;
  return Class::kOther;
}

// The character at `text[at]`; precondition: there is one. A byte that belongs to none counts as one of class kOther.
Character character_at(std::string_view text, size_t at) {
  static const std::array<Class, 128> kAscii = [] {
    std::array<Class, 128> classes{};
    for (int32_t code = 0; code < 128; ++code) classes[static_cast<size_t>(code)] = class_of(code);
    return classes;
  }();
  const auto first = static_cast<unsigned char>(text[at]);
  if (first < 0x80) return {kAscii[first], 1};
  const size_t bytes = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
  if (first < 0xC0 || at + bytes > text.size()) return {Class::kOther, 1};
  int32_t code = first & (0x7F >> bytes);
  for (size_t i = 1; i < bytes; ++i) code = (code << 6) | (static_cast<unsigned char>(text[at + i]) & 0x3F);
  return {class_of(code), bytes};
}

// The end of the run of characters of one class that goes on at `at`.
size_t end_of_run(std::string_view text, size_t at, Class its) {
  while (at < text.size()) {
    const Character next = character_at(text, at);
    if (next.its != its) break;
    at += next.bytes;
  }
  return at;
}

// Bytes of 's, 't, 're, 've, 'm, 'll, 'd; 0 where the text begins otherwise.
size_t contraction_length(std::string_view text) {
  if (text.size() < 2 || text[0] != '\'') return 0;
  switch (text[1]) {
    case 's':
    case 't':
    case 'm':
    case 'd':
      return 2;
    case 'r':
    case 'v':
      return text.size() > 2 && text[2] == 'e' ? 3 : 0;
    case 'l':
      return text.size() > 2 && text[2] == 'l' ? 3 : 0;
    default:
      return 0;
  }
}

// A run of white space leaves its last character to the word behind it, if there is one.
size_t space_length(std::string_view text) {
  size_t at = 0, last = 0;
  while (at < text.size()) {
    const Character next = character_at(text, at);
    if (next.its != Class::kSpace) return last == 0 ? at : last;
    last = at;
    at += next.bytes;
  }
  return at;
}

}  // namespace

size_t word_length(std::string_view text) {
  if (const size_t contraction = contraction_length(text); contraction > 0) return contraction;
  const Character first = character_at(text, 0);
  if (first.its != Class::kSpace) return end_of_run(text, first.bytes, first.its);
  if (text[0] == ' ' && text.size() > 1) {
    const Character second = character_at(text, 1);
    if (second.its != Class::kSpace) return end_of_run(text, 1 + second.bytes, second.its);
  }
  return space_length(text);
}

namespace {

// Bytes of white space at the end: a word ends before it, whatever follows.
size_t trailing_space(std::string_view text) {
  size_t kept = text.size();
  while (kept > 0) {
    size_t at = kept - 1;
    while (at > 0 && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80) --at;
    if (character_at(text, at).its != Class::kSpace) break;
    kept = at;
  }
  return text.size() - kept;
}

// A place before which words end whatever follows, where white space begins, at most kUndecidedMax bytes before the end; else
// the beginning.
size_t sure_beginning(std::string_view text) {
  const size_t first = text.size() - std::min(text.size(), kUndecidedMax);
  for (size_t at = text.size(); at-- > first + 1;) {
    if (text[at] == ' ' || text[at] == '\n') return at - trailing_space(text.substr(0, at));
  }
  return 0;
}

}  // namespace

size_t undecided_end(std::string_view text) {
  size_t end = trailing_space(text);
  if (end == 0 && !text.empty()) {
    std::string_view rest = text.substr(sure_beginning(text));
    for (size_t length = word_length(rest); length < rest.size(); length = word_length(rest)) rest.remove_prefix(length);
    end = rest.size();
  }
  return end <= kUndecidedMax ? end : 0;
}

}  // namespace holdfast::model

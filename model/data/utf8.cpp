#include "model/data/utf8.h"

#include <cstdint>

namespace holdfast::model {

namespace {

struct Lead {
  size_t length;                      // of the character; 0: no character starts so
  uint8_t second_first, second_last;  // what its second byte may be (RFC 3629, section 4)
};

Lead lead_of(uint8_t byte) {
  if (byte < 0x80) return {1, 0, 0};
  if (byte < 0xC2) return {0, 0, 0};  // continuation bytes, and leads of overlong forms
  if (byte < 0xE0) return {2, 0x80, 0xBF};
  if (byte == 0xE0) return {3, 0xA0, 0xBF};
  if (byte == 0xED) return {3, 0x80, 0x9F};
  if (byte < 0xF0) return {3, 0x80, 0xBF};
  if (byte == 0xF0) return {4, 0x90, 0xBF};
  if (byte < 0xF4) return {4, 0x80, 0xBF};
  if (byte == 0xF4) return {4, 0x80, 0x8F};
  return {0, 0, 0};
}

// How many leading bytes of `text` fit the character that its first byte announces.
size_t fitting_bytes(std::string_view text, const Lead& lead) {
  size_t fitting = 1;
  for (; fitting < lead.length && fitting < text.size(); ++fitting) {
    const uint8_t byte = static_cast<uint8_t>(text[fitting]);
    const uint8_t first = fitting == 1 ? lead.second_first : 0x80, last = fitting == 1 ? lead.second_last : 0xBF;
    if (byte < first || byte > last) break;
  }
  return fitting;
}

}  // namespace

size_t utf8_length(std::string_view text) {
  if (text.empty()) return 0;
  const Lead lead = lead_of(static_cast<uint8_t>(text[0]));
  return lead.length != 0 && fitting_bytes(text, lead) == lead.length ? lead.length : 0;
}

size_t first_invalid_utf8(std::string_view text) {
  for (size_t at = 0; at < text.size();) {
    const size_t length = utf8_length(text.substr(at));
    if (length == 0) return at;
    at += length;
  }
  return std::string_view::npos;
}

bool is_utf8_prefix(std::string_view text) {
  if (text.empty()) return false;
  const Lead lead = lead_of(static_cast<uint8_t>(text[0]));
  return text.size() < lead.length && fitting_bytes(text, lead) == text.size();
}

std::string replace_invalid_utf8(std::string_view text) {
  std::string valid;
  valid.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    const size_t length = utf8_length(text.substr(at));
    valid += length == 0 ? std::string_view("\xEF\xBF\xBD") : text.substr(at, length);
    at += length == 0 ? 1 : length;
  }
  return valid;
}

}  // namespace holdfast::model

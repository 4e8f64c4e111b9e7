#include "model/data/byte_pairs/visible_bytes.h"

#include <array>
#include <cstdint>

namespace holdfast::model {
namespace {

constexpr int kHighest = 0x100 + 68;  // 68 bytes have no visible character of their own

bool is_visible(int byte) {
  return (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

struct Alphabet {
  std::array<int, 256> character{};
  std::array<int, kHighest> byte{};
  Alphabet() {
    byte.fill(-1);
    for (int value = 0, next = 0x100; value < 256; ++value) {
      const int code = is_visible(value) ? value : next++;
      character[static_cast<size_t>(value)] = code;
      byte[static_cast<size_t>(code)] = value;
    }
  }
};

const Alphabet& alphabet() {
  static const Alphabet the_one;
  return the_one;
}

}  // namespace

std::string visible_text(const std::string& bytes) {
  std::string text;
  for (const char byte : bytes) {
    const int code = alphabet().character[static_cast<unsigned char>(byte)];
    if (code < 0x80) {
      text += static_cast<char>(code);
    } else {  // below U+0800: two bytes of UTF-8
      text += static_cast<char>(0xC0 | code >> 6);
      text += static_cast<char>(0x80 | (code & 0x3F));
    }
  }
  return text;
}

std::optional<std::string> bytes_of_visible(std::string_view text) {
  std::string bytes;
  for (size_t at = 0; at < text.size(); ++at) {
    int code = static_cast<unsigned char>(text[at]);
    if (code >= 0x80) {
      if (code < 0xC0 || code >= 0xE0 || at + 1 >= text.size()) return std::nullopt;
      code = (code & 0x1F) << 6 | (static_cast<unsigned char>(text[++at]) & 0x3F);
    }
    if (code >= kHighest || alphabet().byte[static_cast<size_t>(code)] < 0) return std::nullopt;
    bytes += static_cast<char>(alphabet().byte[static_cast<size_t>(code)]);
  }
  return bytes;
}

std::optional<std::string> bytes_of_base64(std::string_view text) {
  constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  if (text.size() % 4 != 0) return std::nullopt;
  std::string_view digits = text;
  for (int i = 0; i < 2 && digits.ends_with('='); ++i) digits.remove_suffix(1);
  std::string bytes;
  uint32_t bits = 0;
  for (size_t at = 0; at < digits.size(); ++at) {
    const size_t digit = kDigits.find(digits[at]);
    if (digit == std::string_view::npos) return std::nullopt;
    bits = bits << 6 | static_cast<uint32_t>(digit);
    if (at % 4 != 0) bytes += static_cast<char>(bits >> (6 - 2 * (at % 4)) & 0xFF);
  }
  return bytes;
}

}  // namespace holdfast::model

#include "model/data/utf8.h"

#include <utf8proc.h>

#include <algorithm>

namespace holdfast::model {

size_t utf8_length(std::string_view text) {
  constexpr size_t kLongest = 4;
  if (!text.empty() && static_cast<unsigned char>(text[0]) < 0x80) return 1;  // most of a corpus, without a call
  utf8proc_int32_t code = 0;
  const auto* begin = reinterpret_cast<const utf8proc_uint8_t*>(text.data());
  return std::max<utf8proc_ssize_t>(
      0, utf8proc_iterate(begin, static_cast<utf8proc_ssize_t>(std::min(text.size(), kLongest)), &code));
}

size_t first_invalid_utf8(std::string_view text) {
  for (size_t at = 0; at < text.size();) {
    const size_t length = utf8_length(text.substr(at));
    if (length == 0) return at;
    at += length;
  }
  return std::string_view::npos;
}

// Completed by the lowest or by the highest continuation bytes: what may follow is one range, and has one of them in it.
bool is_utf8_prefix(std::string_view text) {
  if (text.empty()) return false;
  for (std::string whole(text); whole.size() < 4;) {
    const size_t missing = whole.size() + 1 - text.size();
    whole = std::string(text) + std::string(missing, '\x80');
    if (utf8_length(whole) == whole.size()) return true;
    std::fill(whole.end() - static_cast<std::ptrdiff_t>(missing), whole.end(), '\xBF');
    if (utf8_length(whole) == whole.size()) return true;
  }
  return false;
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

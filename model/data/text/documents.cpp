#include "model/data/text/documents.h"

#include <xxhash.h>

#include <algorithm>

#include "model/data/utf8.h"

namespace holdfast::model {

namespace {

constexpr size_t kLineCutBytes = 4 * kDocumentBytes;
constexpr size_t kHardCutBytes = 8 * kDocumentBytes;

// Bytes of the first document in `text`, which is longer than one.
size_t document_length(std::string_view text) {
  const size_t end = std::min(text.size(), kHardCutBytes);
  const size_t blank = text.substr(0, end).find("\n\n", kDocumentBytes);
  const size_t newline = text.substr(0, end).find('\n', std::min(kLineCutBytes, end));
  const size_t after_blank = blank == std::string_view::npos ? end + 1 : blank + 2;
  const size_t after_newline = newline == std::string_view::npos ? end + 1 : newline + 1;
  size_t cut = std::min({after_blank, after_newline, end});
  while (cut < text.size() && utf8_length(text.substr(cut)) == 0) ++cut;  // the text is valid: at most 3 bytes on
  return cut;
}

}  // namespace

void DocumentCutter::add(std::string_view part) {
  text_.erase(0, taken_);
  taken_ = 0;
  ended_ = false;
  text_ += part;
}

void DocumentCutter::end() {
  ended_ = true;
}

std::optional<std::string_view> DocumentCutter::next() {
  constexpr size_t kLongestCharacter = 4;
  const std::string_view rest = std::string_view(text_).substr(taken_);
  if (rest.empty() || (!ended_ && rest.size() < kHardCutBytes + kLongestCharacter)) return std::nullopt;
  const size_t length = rest.size() <= kDocumentBytes ? rest.size() : document_length(rest);
  taken_ += length;
  return rest.substr(0, length);
}

double document_place(std::string_view document, uint64_t seed) {
  return static_cast<double>(XXH3_64bits_withSeed(document.data(), document.size(), seed) >> 11) * 0x1p-53;
}

}  // namespace holdfast::model

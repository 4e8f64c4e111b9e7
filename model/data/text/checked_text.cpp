#include "model/data/text/checked_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "model/data/utf8.h"

namespace holdfast::model {
namespace {

// The beginning of `text` that is whole characters; precondition: no byte of it is NUL.
size_t whole_characters(std::string_view text) {
  const size_t invalid = first_invalid_utf8(text);
  return std::min(invalid, text.size());
}

}  // namespace

tl::unexpected<std::string> CheckedText::no_text(size_t at) const {
  const auto byte = static_cast<unsigned char>(piece_[at]);
  return tl::unexpected(fmt::format(
      "{}: byte {} (0x{:02x}) is not UTF-8 text{}", name_, offset_ + static_cast<int64_t>(at), byte,
      byte == 0 ? ", so this looks like a binary file. Leave it out."
                : ". Convert the file, for example `iconv -f GB18030 -t UTF-8` or `iconv -f LATIN1 -t UTF-8`, or leave it "
                  "out."));
}

tl::expected<std::string_view, std::string> CheckedText::peek() {
  if (!peeked_.empty()) return peeked_;
  const auto piece = next();
  if (piece) peeked_ = *piece;
  return piece;
}

tl::expected<std::string_view, std::string> CheckedText::next() {
  if (!peeked_.empty()) return std::exchange(peeked_, {});
  for (;;) {
    piece_.erase(0, given_);
    offset_ += static_cast<int64_t>(given_);
    given_ = 0;
    const auto bytes = archive_.next_bytes();
    if (!bytes) return tl::unexpected(bytes.error());
    const bool is_last = bytes->empty();
    piece_ += *bytes;
    const size_t good = whole_characters(std::string_view(piece_).substr(0, piece_.find('\0')));
    if (good < piece_.size() && (is_last || !is_utf8_prefix(std::string_view(piece_).substr(good)))) return no_text(good);
    constexpr std::string_view kMark = "\xEF\xBB\xBF";
    const size_t skipped = !begun_ && piece_.starts_with(kMark) ? kMark.size() : 0;
    if (good == 0 && !is_last) continue;
    begun_ = true;
    given_ = good;
    if (good > skipped || is_last) return std::string_view(piece_).substr(skipped, good - skipped);
  }
}

}  // namespace holdfast::model

#include "model/data/byte_pairs/vocabulary.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace holdfast::model {

tl::expected<void, std::string> check(const BytePairVocabulary& vocabulary) {
  const auto count = static_cast<int64_t>(vocabulary.tokens.size());
  std::array<bool, 256> has{};
  for (int64_t id = 0; id < count; ++id) {
    const std::string& token = vocabulary.tokens[static_cast<size_t>(id)];
    if (token.empty()) return tl::unexpected(fmt::format("token {} is empty.", id));
    const bool is_special = std::ranges::binary_search(vocabulary.special_ids, id);  // text never becomes it
    if (token.size() == 1 && !is_special) has[static_cast<unsigned char>(token[0])] = true;
  }
  if (const auto missing = std::ranges::find(has, false); missing != has.end()) {
    return tl::unexpected(fmt::format(
        "no token stands for the byte 0x{:02x} in text, which would be lost: expected all 256 bytes beside special tokens.",
        missing - has.begin()));
  }
  for (size_t i = 0; i < vocabulary.merges.size(); ++i) {
    const auto& [left, right, merged] = vocabulary.merges[i];
    for (const int32_t id : {left, right, merged}) {
      if (id < 0 || id >= count) return tl::unexpected(fmt::format("merge {} names token {}, and there are {}.", i, id, count));
    }
    const auto token = [&](int32_t id) -> const std::string& { return vocabulary.tokens[static_cast<size_t>(id)]; };
    if (token(left) + token(right) != token(merged)) {
      return tl::unexpected(
          fmt::format("merge {} makes token {} of {} and {}, whose bytes are others.", i, merged, left, right));
    }
  }
  return {};
}

}  // namespace holdfast::model

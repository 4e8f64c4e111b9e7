// Bytes written as text. GPT-2's files write each byte as one visible character (Radford et al. 2019, encoder.py,
// bytes_to_unicode): itself where Latin-1 has one that is visible, else U+0100 and on, in order. tiktoken's write base64 (RFC
// 4648).
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace holdfast::model {

std::string visible_text(const std::string& bytes);
// Nothing where a character stands for no byte.
std::optional<std::string> bytes_of_visible(std::string_view text);
// Nothing where it is no base64 with its padding.
std::optional<std::string> bytes_of_base64(std::string_view text);

}  // namespace holdfast::model

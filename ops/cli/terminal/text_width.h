// UTF-8 text on a terminal: how many columns it takes, cut to so many, and without bytes that would steer the terminal.
#pragma once

#include <string>
#include <vector>

namespace holdfast::ops {

// Columns a terminal needs for UTF-8 text: wide characters (Chinese, emoji) take two, combining marks none.
size_t columns(const std::string& text);
// The text cut to `width` columns, with … where something is gone.
std::string cut_to(const std::string& text, size_t width);
// Spaces added up to `width` columns, at the end or before the text.
std::string padded(const std::string& text, size_t width, bool right = false);
// One line without control characters, which others may have written and a terminal would obey: line breaks and tabs become
// spaces, escape and its like are shown as ^[, ^A; bytes that are no UTF-8 and U+0080 to U+009F as ?.
std::string printable(const std::string& text);
// The words of the text in lines of `width` columns; a longer word has a line of its own.
std::vector<std::string> wrapped(const std::string& text, size_t width);

}  // namespace holdfast::ops

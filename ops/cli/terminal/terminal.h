// The terminal behind a file descriptor: how wide it is, whether its cursor can be moved, whether text is coloured.
//
// Promises: no escape sequence goes to what is no terminal, unless CLICOLOR_FORCE asks for colours; none where TERM is unset or
// "dumb"; no colours where NO_COLOR is set (https://no-color.org).
#pragma once

#include <string>

namespace holdfast::ops {

size_t terminal_width(int fd);   // columns; 0 when it is no terminal
size_t terminal_height(int fd);  // lines; 0 when it is no terminal
bool can_redraw(int fd);
bool colour_wanted(int fd);

enum class Style { kPlain, kBold, kFaint, kGood, kPending, kBad };
// The text between the escape sequences of its style, or as it is.
std::string painted(const std::string& text, Style style, bool colour);

}  // namespace holdfast::ops

// Holdfast's SQL as libpq takes it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace holdfast::rendezvous {

// "?" and "?2" become "$1" and "$2", but not in quotes.
std::string with_numbered_parameters(std::string_view sql);
// Statements that are divided by semicolons, which may be in no quotes here. Empty ones are left out.
std::vector<std::string> statements_of(std::string_view sql);
// Text as PostgreSQL takes it: bytes that are no UTF-8, and NUL, are U+FFFD.
std::string storable_text(std::string_view text);

}  // namespace holdfast::rendezvous

#include "rendezvous/store/postgresql/sql_text.h"

#include <cctype>

#include "rendezvous/text/utf8.h"

namespace holdfast::rendezvous {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD

}  // namespace

std::string with_numbered_parameters(std::string_view sql) {
  std::string text;
  int next = 0;
  bool quoted = false;
  for (size_t at = 0; at < sql.size(); ++at) {
    if (sql[at] == '\'') quoted = !quoted;
    if (sql[at] != '?' || quoted) {
      text += sql[at];
      continue;
    }
    const bool numbered = at + 1 < sql.size() && std::isdigit(static_cast<unsigned char>(sql[at + 1])) != 0;
    text += '$';
    if (!numbered) text += std::to_string(++next);
  }
  return text;
}

std::vector<std::string> statements_of(std::string_view sql) {
  std::vector<std::string> statements;
  while (!sql.empty()) {
    const size_t end = sql.find(';');
    const std::string_view one = sql.substr(0, end);
    if (one.find_first_not_of(" \n") != std::string_view::npos) statements.emplace_back(one);
    sql = end == std::string_view::npos ? std::string_view() : sql.substr(end + 1);
  }
  return statements;
}

std::string storable_text(std::string_view text) {
  std::string stored;
  stored.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    const Character character = character_at(text, at);
    if (character.valid && character.code != 0) {
      stored += text.substr(at, character.bytes);
    } else {
      stored += kReplacement;
    }
    at += character.bytes;
  }
  return stored;
}

}  // namespace holdfast::rendezvous

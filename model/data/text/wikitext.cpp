#include "model/data/text/wikitext.h"

#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

namespace holdfast::model {
namespace {

bool equals_ignoring_case(std::string_view text, std::string_view lower) {
  return text.size() == lower.size() && std::ranges::equal(text, lower, [](char one, char other) {
           return (one >= 'A' && one <= 'Z' ? one + 32 : one) == other;
         });
}

template <size_t N>
bool is_one_of(std::string_view text, const std::array<std::string_view, N>& lower) {
  return std::ranges::any_of(lower, [&](std::string_view one) { return equals_ignoring_case(text, one); });
}

// --- Tags
// ------------------------------------------------------------------------------------------------------------------------

struct Tag {
  std::string_view name;
  size_t bytes = 0;
  bool closes = false, is_alone = false;  // </ref>, <ref name="x"/>
};

// The tag that begins at `text[0]`, a '<'; nothing where it is none.
std::optional<Tag> tag_at(std::string_view text) {
  constexpr size_t kLongest = 1024;
  const size_t end = text.substr(0, kLongest).find('>');
  const size_t name = text.size() > 1 && text[1] == '/' ? 2 : 1;
  const auto is_letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); };
  if (end == std::string_view::npos || name >= end || !is_letter(text[name])) return std::nullopt;
  size_t last = name;
  while (last < end && (is_letter(text[last]) || (text[last] >= '0' && text[last] <= '9'))) ++last;
  return Tag{text.substr(name, last - name), end + 1, name == 2, text[end - 1] == '/'};
}

// Elements whose contents are no running text.
bool is_left_out(std::string_view element) {
  constexpr std::array<std::string_view, 12> kLeftOut = {"ref",    "math",          "gallery", "timeline", "syntaxhighlight",
                                                         "source", "score",         "hiero",   "chem",     "imagemap",
                                                         "graph",  "templatestyles"};
  return is_one_of(element, kLeftOut);
}

// Comments, tags and what is_left_out. A tag that is never closed stays; `nowhere` remembers it, so that it is not looked for
// again.
std::string without_tags(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  bool open_comment = false;
  std::vector<std::string> nowhere;
  const auto end_of = [&](std::string_view name, size_t from) -> size_t {  // of the element: behind its closing tag
    std::string lower(name);
    std::ranges::transform(lower, lower.begin(), [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
    if (std::ranges::find(nowhere, lower) != nowhere.end()) return std::string_view::npos;
    for (size_t at = text.find("</", from); at != std::string_view::npos; at = text.find("</", at + 2)) {
      const auto tag = tag_at(text.substr(at));
      if (tag && equals_ignoring_case(tag->name, lower)) return at + tag->bytes;
    }
    nowhere.push_back(lower);
    return std::string_view::npos;
  };
  for (size_t at = 0; at < text.size();) {
    if (text[at] != '<') {
      const size_t next = std::min(text.find('<', at), text.size());
      out += text.substr(at, next - at);
      at = next;
      continue;
    }
    if (text.substr(at, 4) == "<!--" && !open_comment) {
      const size_t end = text.find("-->", at);
      open_comment = end == std::string_view::npos;
      if (!open_comment) at = end + 3;
      if (!open_comment) continue;
    }
    const auto tag = tag_at(text.substr(at));
    if (!tag) {
      out += text[at++];
      continue;
    }
    const size_t end =
        is_left_out(tag->name) && !tag->closes && !tag->is_alone ? end_of(tag->name, at + tag->bytes) : std::string_view::npos;
    if (equals_ignoring_case(tag->name, "br")) out += '\n';
    at = end == std::string_view::npos ? at + tag->bytes : end;
  }
  return out;
}

// --- Brackets
// --------------------------------------------------------------------------------------------------------------------

// The words that a link [[...]] leaves; nothing where it is no part of the running text.
std::string words_of_link(std::string_view inside) {
  constexpr std::array<std::string_view, 22> kNoText = {"file",
                                                        "image",
                                                        "category",
                                                        "media",
                                                        "datei",
                                                        "bild",
                                                        "kategorie",
                                                        "fichier",
                                                        "cat\xC3\xA9gorie",
                                                        "archivo",
                                                        "imagen",
                                                        "categor\xC3\xAD"
                                                        "a",
                                                        "\xE6\x96\x87\xE4\xBB\xB6",
                                                        "\xE5\x9B\xBE\xE5\x83\x8F",
                                                        "\xE6\xAA\x94\xE6\xA1\x88",
                                                        "\xE5\x88\x86\xE7\xB1\xBB",
                                                        "\xE5\x88\x86\xE9\xA1\x9E",
                                                        "\xE3\x83\x95\xE3\x82\xA1\xE3\x82\xA4\xE3\x83\xAB",
                                                        "wikipedia",
                                                        "template",
                                                        "special",
                                                        "user"};
  const size_t bar = inside.find('|'), colon = inside.substr(0, bar).find(':');
  if (colon == 0) {
    inside.remove_prefix(1);  // [[:Category:X]] is a link to it
  } else if (colon != std::string_view::npos) {
    const std::string_view space = inside.substr(0, colon);
    const bool is_language =
        space.size() >= 2 && space.size() <= 3 && std::ranges::all_of(space, [](char c) { return c >= 'a' && c <= 'z'; });
    if (is_language || is_one_of(space, kNoText)) return "";
  }
  return std::string(inside.substr(inside.rfind('|') == std::string_view::npos ? 0 : inside.rfind('|') + 1));
}

// Templates and tables fall away with all that is in them, links leave words.
class Brackets {
 public:
  std::string run(std::string_view text) {
    for (size_t at = 0; at < text.size();) at += take(text, at);
    return std::move(out_);
  }

 private:
  static constexpr size_t kDeepestLinks = 16;
  enum Kind : uint8_t { kTemplate, kTable, kLink, kAddress, kKinds };
  struct Open {
    Kind kind;
    size_t at;  // in out_, of its own characters
    size_t bytes;
  };

  size_t open(Kind kind, std::string_view characters) {
    open_.push_back({kind, out_.size(), characters.size()});
    ++count_[kind];
    out_ += characters;
    return characters.size();
  }
  // False where nothing of this kind is open. Brackets in it that were never closed stay text.
  bool close(Kind kind) {
    if (count_[kind] == 0) return false;
    while (open_.back().kind != kind) pop();
    const Open opened = open_.back();
    pop();
    const bool leaves_words = kind == kLink || kind == kAddress;
    const std::string inside = leaves_words ? out_.substr(opened.at + opened.bytes) : std::string();
    out_.resize(opened.at);
    if (kind == kLink) out_ += words_of_link(inside);
    if (kind == kAddress && inside.find(' ') != std::string::npos) out_ += inside.substr(inside.find(' ') + 1);
    return true;
  }
  void pop() {
    --count_[open_.back().kind];
    open_.pop_back();
  }

  // Bytes that were taken.
  size_t take(std::string_view text, size_t at) {
    const std::string_view two = text.substr(at, 2);
    const bool begins_line = at == 0 || text[at - 1] == '\n' || text[at - 1] == ':';
    if (two == "{{") return open(kTemplate, two);
    if (two == "{|" && begins_line) return open(kTable, two);
    // Words of links are copied once a level.
    const bool is_deep = count_[kLink] + count_[kAddress] >= kDeepestLinks;
    if (two == "[[" && !is_deep) return open(kLink, two);
    if (two == "}}" && close(kTemplate)) return 2;
    if (two == "|}" && !open_.empty() && open_.back().kind == kTable && text.substr(at, 3) != "|}}" && close(kTable)) return 2;
    if (two == "]]" && close(kLink)) return 2;
    const bool is_address =
        text.substr(at, 8) == "[http://" || text.substr(at, 9) == "[https://" || text.substr(at, 3) == "[//";
    if (is_address && !is_deep) return open(kAddress, text.substr(at, 1));
    if (text[at] == ']' && !open_.empty() && open_.back().kind == kAddress && close(kAddress)) return 1;
    out_ += text[at];
    return 1;
  }

  std::string out_;
  std::vector<Open> open_;
  size_t count_[kKinds] = {};
};

// --- Characters and lines
// --------------------------------------------------------------------------------------------------------

std::string utf8_of(uint32_t code) {
  utf8proc_uint8_t bytes[4];
  if (code == 0 || code > 0x10FFFF) return "";
  const utf8proc_ssize_t count = utf8proc_encode_char(static_cast<utf8proc_int32_t>(code), bytes);  // 0: a surrogate
  return {reinterpret_cast<const char*>(bytes), static_cast<size_t>(count)};
}

// The character of an entity, "&" and ";" left out; nothing where it is none that is known.
std::optional<std::string> character_of(std::string_view entity) {
  using Named = std::pair<std::string_view, std::string_view>;
  constexpr std::array<Named, 12> kNamed = {Named{"nbsp", " "},
                                            {"lt", "<"},
                                            {"gt", ">"},
                                            {"amp", "&"},
                                            {"quot", "\""},
                                            {"apos", "'"},
                                            {"ndash", "\xE2\x80\x93"},
                                            {"mdash", "\xE2\x80\x94"},
                                            {"thinsp", " "},
                                            {"minus", "\xE2\x88\x92"},
                                            {"hellip", "\xE2\x80\xA6"},
                                            {"times", "\xC3\x97"}};
  for (const auto& [name, character] : kNamed) {
    if (entity == name) return std::string(character);
  }
  if (entity.size() < 2 || entity[0] != '#') return std::nullopt;
  const bool is_hex = entity[1] == 'x' || entity[1] == 'X';
  const std::string_view digits = entity.substr(is_hex ? 2 : 1);
  uint32_t code = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), code, is_hex ? 16 : 10);
  if (error != std::errc() || end != digits.data() + digits.size()) return std::nullopt;
  return utf8_of(code);
}

// Entities become characters; runs of two and more apostrophes, which mean italic and bold, fall away.
std::string with_plain_characters(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    if (text[at] == '&') {
      const size_t end = text.substr(at, 12).find(';');
      const auto character = end == std::string_view::npos ? std::nullopt : character_of(text.substr(at + 1, end - 1));
      out += character.value_or("&");
      at += character ? end + 1 : 1;
    } else if (text[at] == '\'') {
      const size_t run = std::min(text.find_first_not_of('\'', at), text.size()) - at;
      out.append(run == 1 || run == 4 ? 1 : run > 5 ? run - 5 : 0, '\'');
      at += run;
    } else {
      out += text[at++];
    }
  }
  return out;
}

std::string_view trimmed(std::string_view text, const char* characters = " \t\r") {
  const size_t first = text.find_first_not_of(characters);
  return first == std::string_view::npos ? std::string_view()
                                         : text.substr(first, text.find_last_not_of(characters) - first + 1);
}

// A line without the marks of headings, lists and rules.
std::string_view words_of_line(std::string_view line) {
  line = trimmed(line);
  if (line.starts_with("----") || (line.size() > 4 && line.starts_with("__") && line.ends_with("__"))) return {};
  if (line.starts_with('=') && line.ends_with('=')) return trimmed(line, "= \t");
  const size_t mark = line.find_first_not_of("*#:;");
  return trimmed(mark == std::string_view::npos ? std::string_view() : line.substr(mark));
}

// Parentheses around a template often have nothing left in them.
std::string without_empty_parentheses(std::string_view line) {
  std::string out;
  for (size_t at = 0; at < line.size();) {
    const size_t close = line[at] == '(' ? line.find_first_not_of(" ,;", at + 1) : std::string_view::npos;
    if (close != std::string_view::npos && line[close] == ')') {
      if (out.ends_with(' ')) out.pop_back();
      at = close + 1;
    } else {
      out += line[at++];
    }
  }
  return out;
}

}  // namespace

std::string plain_text_of_wikitext(std::string_view markup) {
  const std::string text = with_plain_characters(Brackets().run(without_tags(markup)));
  std::string out;
  bool blank = true;  // the line before is, or there is none
  for (std::string_view rest = text; !rest.empty();) {
    const size_t end = std::min(rest.find('\n'), rest.size());
    const std::string line = without_empty_parentheses(words_of_line(rest.substr(0, end)));
    rest.remove_prefix(std::min(end + 1, rest.size()));
    if (!line.empty() || !blank) out += line + "\n";
    blank = line.empty();
  }
  while (out.ends_with("\n\n")) out.pop_back();
  return out == "\n" ? std::string() : out;
}

}  // namespace holdfast::model

#include "rendezvous/text/list_in_words.h"

#include <fmt/format.h>

#include <algorithm>

namespace holdfast::rendezvous {

std::string in_words(const std::vector<std::string>& names) {
  constexpr size_t kNamesMax = 32;  // nobody reads more, and such a text is part of directives
  const size_t told = names.size() > kNamesMax + 1 ? kNamesMax : names.size();
  std::string text;
  for (size_t i = 0; i < told; ++i) {
    if (i > 0) text += i + 1 == names.size() ? " and " : ", ";
    text += names[i];
  }
  if (told < names.size()) text += fmt::format(" and {} more", names.size() - told);
  return text;
}

}  // namespace holdfast::rendezvous

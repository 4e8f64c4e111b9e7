#include "rendezvous/text/natural_order.h"

#include <algorithm>
#include <cctype>

namespace holdfast::rendezvous {

bool natural_less(const std::string& a, const std::string& b) {
  const auto is_digit = [](char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; };
  size_t i = 0, j = 0;
  while (i < a.size() && j < b.size()) {
    if (!is_digit(a[i]) || !is_digit(b[j])) {
      if (a[i] != b[j]) return a[i] < b[j];
      ++i, ++j;
      continue;
    }
    const size_t a_end = std::find_if_not(a.begin() + i, a.end(), is_digit) - a.begin();
    const size_t b_end = std::find_if_not(b.begin() + j, b.end(), is_digit) - b.begin();
    const std::string x = a.substr(i, a_end - i), y = b.substr(j, b_end - j);
    if (x.size() != y.size()) return x.size() < y.size();
    if (x != y) return x < y;
    i = a_end, j = b_end;
  }
  return a.size() - i < b.size() - j;
}

}  // namespace holdfast::rendezvous

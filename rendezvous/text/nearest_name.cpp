// Levenshtein's distance, one row of the table at a time.
#include "rendezvous/text/nearest_name.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace holdfast::rendezvous {
namespace {

size_t distance(const std::string& a, const std::string& b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), 0);
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = std::exchange(row[0], i);
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = std::exchange(row[j], std::min({replaced, row[j] + 1, row[j - 1] + 1}));
    }
  }
  return row.back();
}

}  // namespace

std::string nearest_name(const std::string& typed, const std::vector<std::string>& known) {
  constexpr size_t kWorthTrying = 64;  // bytes
  if (typed.size() > kWorthTrying) return "";
  std::string nearest;
  size_t fewest = std::max<size_t>(2, typed.size() / 3) + 1;
  for (const std::string& name : known) {
    const size_t changes = distance(typed, name);
    if (changes >= fewest) continue;
    fewest = changes;
    nearest = name;
  }
  return nearest;
}

}  // namespace holdfast::rendezvous

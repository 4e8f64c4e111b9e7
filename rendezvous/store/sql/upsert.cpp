#include "rendezvous/store/sql/upsert.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace holdfast::rendezvous {

std::string upsert(const std::string& table, const std::vector<std::string>& key, const std::vector<std::string>& others) {
  std::vector<std::string> changes;
  for (const std::string& column : others) changes.push_back(fmt::format("{0} = excluded.{0}", column));
  const std::vector<std::string> values(key.size() + others.size(), "?");
  return fmt::format("INSERT INTO {} ({}, {}) VALUES ({}) ON CONFLICT ({}) DO UPDATE SET {}", table, fmt::join(key, ", "),
                     fmt::join(others, ", "), fmt::join(values, ","), fmt::join(key, ", "), fmt::join(changes, ", "));
}

}  // namespace holdfast::rendezvous

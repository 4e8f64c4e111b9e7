// The statement that puts a row into a table, or over the row with the same key.
#pragma once

#include <string>
#include <vector>

namespace holdfast::rendezvous {

// Its parameters are the values of `key`, then of `others`.
std::string upsert(const std::string& table, const std::vector<std::string>& key, const std::vector<std::string>& others);

}  // namespace holdfast::rendezvous

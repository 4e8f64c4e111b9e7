// The tables of the store with their columns, as every engine has them: for whoever moves rows from one database to another.
#pragma once

#include <string>
#include <vector>

namespace holdfast::rendezvous {

struct SqlColumn {
  enum class Kind { kInteger, kReal, kText, kBytes } kind;
  std::string name;
};
struct SqlTable {
  std::string name;
  std::vector<std::string> key;    // no two rows have the same values there
  std::vector<SqlColumn> columns;  // the key's among them
  bool has_ids = false;            // the first column of the key is an id that is never given out again
};
// In an order in which rows may be put: none refers to a row of a later table.
const std::vector<SqlTable>& sql_tables();

}  // namespace holdfast::rendezvous

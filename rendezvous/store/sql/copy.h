// All rows of a store, from one database into another that has none, of the same engine or another.
//
// Promises: one transaction in `to`, so that it has all or nothing. Afterwards both are read again and compared, row by row and
// value by value. Ids go on above those that `from` ever gave out.
// Throws StoreError: `to` has rows, or a row differs, which it names.
// Thread: the caller's, alone with both databases.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "rendezvous/store/sql/database.h"

namespace holdfast::rendezvous {

// `on_table` is told of each table when its rows are there: its name, and how many there are.
void copy_rows(SqlDatabase& from, SqlDatabase& to, const std::function<void(const std::string&, int64_t)>& on_table);

}  // namespace holdfast::rendezvous

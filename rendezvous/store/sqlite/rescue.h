// Saving what an open database holds when its file was removed or replaced below it, and keeping a service from beginning with
// what has the name now.
//
// Beside DIR/holdfast.sqlite: DIR/holdfast.rescued-TIME.sqlite, a whole database that `holdfast restore` takes, and
// DIR/holdfast.lost, which says in one sentence what happened and what to do. While the latter is there the database is not
// opened: a service that began with no jobs, or with others, would tell all workers to drop theirs.
#pragma once

#include <string>

#include "rendezvous/store/sqlite/database.h"

namespace holdfast::rendezvous {

std::string lost_mark(const std::string& database_path);

// Copies all that is committed into a file of its own, durable before it has its name, sets the mark, and returns the
// sentence. `what_happened` begins it. Where nothing could be saved the sentence says so, and why. Ends an open transaction
// without keeping it. Does not throw.
std::string rescue(SqliteDatabase& database, const std::string& what_happened) noexcept;

// Throws StoreError with the mark's sentence when there is one.
void refuse_lost(const std::string& database_path);
// Somebody decided what the database is. Throws StoreError.
void remove_lost_mark(const std::string& database_path);

}  // namespace holdfast::rendezvous

// The database's schema, as a list of migrations: number n brings version n - 1 to n. Entries are never changed once
// released; a new version appends one.
#pragma once

#include "rendezvous/store/sqlite/database.h"

namespace holdfast::rendezvous {

int schema_version_known();
// Brings the database to that version, or leaves it where it is further. Throws StoreError for a database of a version that is
// not known, naming both.
void migrate(SqliteDatabase& database, int to = schema_version_known());

}  // namespace holdfast::rendezvous

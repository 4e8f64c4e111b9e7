// The database's schema, as a list of migrations: number n brings version n - 1 to n. Entries are never changed once
// released; a new version appends one.
#pragma once

#include "rendezvous/sqlite_database.h"

namespace holdfast::rendezvous {

int schema_version_known();
// Brings the database to schema_version_known(); the version that it had, 0 for a new one. Throws StoreError for a database of
// a newer version, naming both.
int migrate(SqliteDatabase& database);

}  // namespace holdfast::rendezvous

// The tables of the store in PostgreSQL, and how they came to be: numbered migrations, as SQLite has its own.
#pragma once

#include <cstdint>

#include "rendezvous/store/postgresql/database.h"

namespace holdfast::rendezvous {

int postgresql_schema_version_known();
int64_t schema_version(PostgresqlDatabase& database);  // of its tables. Throws StoreError where it has none
// Makes the tables where there are none. Several services may do so at once. Throws StoreError where the tables are of a newer
// program.
void make_tables(PostgresqlDatabase& database);
// Brings the tables of an older program up to date. For the service that leads: an older one that led would not know them.
void migrate(PostgresqlDatabase& database);

}  // namespace holdfast::rendezvous

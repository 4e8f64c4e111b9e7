// The job store in one SQLite file: write-ahead log, synchronous=FULL, so a commit that returned survives power loss.
//
// A file that is removed or replaced below an open store is noticed at the next commit or check: what the store still holds is
// saved beside it (rescue.h), StoreError says where and what to do, and no store is opened there before somebody decided.
#pragma once

#include <memory>
#include <string>

#include "rendezvous/store/job_store.h"
#include "rendezvous/store/record_limits.h"
#include "rendezvous/store/sql/database.h"

namespace holdfast::rendezvous {

// Throws StoreError: the file cannot be opened, is damaged, is of a newer version, or was lost below the store before.
std::unique_ptr<JobStore> open_sqlite_store(const std::string& path, const Retention& retention = {});
// The database below it, with its tables; nothing watches its file.
std::unique_ptr<SqlDatabase> open_sqlite_database(const std::string& path);

}  // namespace holdfast::rendezvous

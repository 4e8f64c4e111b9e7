// The job store in one SQLite file: write-ahead log, synchronous=FULL, so a commit that returned survives power loss.
#pragma once

#include <memory>
#include <string>

#include "rendezvous/job_store.h"
#include "rendezvous/retention.h"

namespace holdfast::rendezvous {

// Throws StoreError: the file cannot be opened, is damaged, or is of a newer version.
std::unique_ptr<JobStore> open_sqlite_store(const std::string& path, const Retention& retention = {});

}  // namespace holdfast::rendezvous

// The job store in a PostgreSQL database.
//
// Promises: as JobStore, as far as the server's own settings reach: a commit survives the server's end by kill -9 or power
// loss, and a failover to a replica that is synchronous. The service that leads writes (leadership.h): a transaction of another
// term than the database's throws LostLeadership and keeps nothing.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "rendezvous/store/job_store.h"
#include "rendezvous/store/postgresql/database.h"
#include "rendezvous/store/record_limits.h"

namespace holdfast::rendezvous {

// Makes the tables where there are none. `check` is what the store's check_files() does. Throws as PostgresqlDatabase does.
std::unique_ptr<JobStore> open_postgresql_store(const PostgresqlConnect& connect, const Retention& retention = {},
                                                std::function<void()> check = {});

}  // namespace holdfast::rendezvous

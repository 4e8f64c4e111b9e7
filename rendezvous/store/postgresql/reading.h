// The store in a PostgreSQL database, as a service that stands by reads it.
#pragma once

#include <memory>
#include <string>

#include "rendezvous/store/reading.h"

namespace holdfast::rendezvous {

// `service`: the id of this one; its connection has a name of its own, so that it is not what a deposed leader loses. Throws as
// PostgresqlDatabase does, and StoreAway where the tables are of another version of Holdfast than this program.
std::unique_ptr<StoreReading> open_postgresql_reading(const std::string& address, const std::string& service);

}  // namespace holdfast::rendezvous

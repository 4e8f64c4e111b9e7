// The database of `holdfast serve`, opened anew for each of its services: the file in the data directory, or a PostgreSQL
// database that several services share.
//
// Thread: open_reading() from any; all else one at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "rendezvous/process/request_counts.h"
#include "rendezvous/store/database_seen.h"
#include "rendezvous/store/job_store.h"
#include "rendezvous/store/reading.h"
#include "rendezvous/store/record_limits.h"

namespace holdfast::rendezvous {

struct OpenDatabase {
  std::shared_ptr<void> leadership;  // given up when it goes; none: nobody else may write
  std::unique_ptr<JobStore> store;
  int64_t term = 0;                    // of this leader; 0: there are no terms
  std::function<DatabaseSeen()> seen;  // from any thread, for as long as `leadership` is there; empty: there is none
  bool may_lack_some = false;          // of what was acknowledged: a replica took the place of the server
  std::function<void()> made_good;     // to be called when the service knows what it lacks; empty: there is nothing to know
};

class ServiceDatabase {
 public:
  virtual ~ServiceDatabase() = default;
  // Throws StandsBy while another service leads; StoreAway when it may be opened later; StoreError else.
  virtual OpenDatabase open() = 0;
  // For a service that stands by. Throws StoreError; does not need the leadership.
  virtual std::unique_ptr<StoreReading> open_reading() const = 0;
};

struct DatabaseChoice {
  std::string store;  // postgresql://…; "": the file holdfast.sqlite in `data_dir`
  std::string data_dir;
  Retention retention;
  std::string service;  // the id of this process, which no other has
  std::string address;  // where others reach this service
  std::string tokens;   // a digest of its token files: services of one database must have the same
  std::shared_ptr<const RequestCounts> requests = std::make_shared<RequestCounts>();  // of this process
};
std::unique_ptr<ServiceDatabase> choose_database(DatabaseChoice choice);

}  // namespace holdfast::rendezvous

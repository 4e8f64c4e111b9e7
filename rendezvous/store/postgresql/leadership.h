// The leadership of services with a PostgreSQL database (store/leadership.h): an advisory lock, and the tables `leadership`
// and `beats`.
//
// Thread: one at a time.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "rendezvous/store/database_seen.h"
#include "rendezvous/store/leadership.h"
#include "rendezvous/store/postgresql/database.h"

namespace holdfast::rendezvous {

struct LeadershipOptions {
  std::string database;                  // its address
  std::string service, address, tokens;  // of this one, as in Leader
  std::chrono::milliseconds patience{2000};
};

// The name of a service's connections at the server, by which it is deposed: "holdfast ID", and the address of the one that
// asks for the leadership, by which others are told of it.
std::string application_name(const std::string& service, const std::string& address = "");
// That of a connection by which it only reads, which stays when it is deposed.
std::string name_of_reading(const std::string& service);

class PostgresqlLeadership : private LeadershipTable {
 public:
  // Makes the tables where there are none. Throws as PostgresqlDatabase does.
  explicit PostgresqlLeadership(LeadershipOptions options);

  struct Seen {  // as SeenOfLeader
    std::optional<std::chrono::steady_clock::time_point> unanswered_since = std::nullopt;
    int64_t referred = 0;
  };
  bool try_to_lead(const Seen& seen);  // as Leadership
  bool try_to_lead() { return try_to_lead(Seen{}); }
  // The leader counts up. Throws LostLeadership where the database is in another term, StoreAway when it was deposed, or the
  // server is away.
  void beat(bool heard = true) { leadership_.beat(heard); }
  int64_t term() const { return leadership_.term(); }
  bool is_of_new_timeline() const { return leadership_.is_of_new_timeline(); }
  int64_t of_timeline() const { return leadership_.timeline(); }
  Leader leader() override;  // the present one, as the table has it
  DatabaseSeen look_around();

 private:
  bool take_lock() override;
  TermRow lock_row() override;
  void write_row(const Leader& leader, int64_t timeline) override;
  int64_t timeline() override;
  int64_t beats() override;
  void count_beats(int64_t by) override;
  void depose(const Leader& leader) override;

  PostgresqlDatabase db_;
  Leadership leadership_;
};

// The leader of this term has made good what a database of a new timeline lacks: the next one need not. Throws StoreError,
// which leaves it to the next one.
void settle_timeline(const LeadershipOptions& options, int64_t term, int64_t timeline);

}  // namespace holdfast::rendezvous

// A database server that several services reach over connections, and a connection may be cut: one lock, one row with the term,
// one count of beats, a log of commits. It does what PostgreSQL does for the store, as far as leadership goes.
//
// A transaction insists on its term when it begins, and has the row until it ends; a connection that is cut stays at the
// server, with its lock and its transaction, until the server notices or somebody ends it. Thread: one.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "rendezvous/store/leadership.h"

namespace holdfast::sim {

struct Commit {
  int64_t term = 0;
  std::string service;
  int64_t submission = 0;
};

class DatabaseServer {
 public:
  using Connection = int64_t;

  Connection connect(const std::string& service);
  void end(Connection connection);  // its lock is free, its transaction undone
  void end_all_of(const std::string& service);
  bool is_there(Connection connection) const { return connections_.contains(connection); }

  bool take_lock(Connection connection);
  // Begins a transaction. False: another connection's has the row.
  bool lock_row(Connection connection);
  rendezvous::TermRow row() const { return {leader_.term, row_timeline_}; }
  void write_row(Connection connection, const rendezvous::Leader& leader, int64_t timeline);
  const rendezvous::Leader& leader() const { return leader_; }

  // A transaction of a store: false: the term is another one, nothing is begun.
  enum class Begun { kYes, kOtherTerm, kRowIsTaken };
  Begun begin(Connection connection, int64_t term);
  void commit(Connection connection, const Commit& what);

  // A replica that is not synchronous: it has all as it was when it was last sent to, and takes the server's place so.
  void send_to_replica();
  void fail_over_to_replica();

  int64_t beats = 0, timeline = 1;
  const std::vector<Commit>& commits() const { return commits_; }

 private:
  struct Session {
    std::string service;
  };
  struct Replica {
    rendezvous::Leader leader;
    int64_t row_timeline = 0, beats = 0;
    size_t commits = 0;
  };
  std::map<Connection, Session> connections_;
  std::optional<Connection> lock_, row_holder_;
  rendezvous::Leader leader_;
  int64_t row_timeline_ = 0, connected_ = 0;
  std::vector<Commit> commits_;
  Replica replica_;
};

}  // namespace holdfast::sim

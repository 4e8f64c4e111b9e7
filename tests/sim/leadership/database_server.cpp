#include "tests/sim/leadership/database_server.h"

namespace holdfast::sim {

DatabaseServer::Connection DatabaseServer::connect(const std::string& service) {
  connections_[++connected_] = {service};
  return connected_;
}

void DatabaseServer::end(Connection connection) {
  connections_.erase(connection);
  if (lock_ == connection) lock_.reset();
  if (row_holder_ == connection) row_holder_.reset();
}

void DatabaseServer::end_all_of(const std::string& service) {
  std::vector<Connection> theirs;
  for (const auto& [connection, session] : connections_) {
    if (session.service == service) theirs.push_back(connection);
  }
  for (const Connection connection : theirs) end(connection);
}

bool DatabaseServer::take_lock(Connection connection) {
  if (!lock_) lock_ = connection;
  return lock_ == connection;
}

bool DatabaseServer::lock_row(Connection connection) {
  if (row_holder_ && row_holder_ != connection) return false;
  row_holder_ = connection;
  return true;
}

void DatabaseServer::write_row(Connection connection, const rendezvous::Leader& leader, int64_t of_timeline) {
  leader_ = leader;
  row_timeline_ = of_timeline;
  if (row_holder_ == connection) row_holder_.reset();
}

DatabaseServer::Begun DatabaseServer::begin(Connection connection, int64_t term) {
  if (row_holder_ && row_holder_ != connection) return Begun::kRowIsTaken;
  if (leader_.term != term) return Begun::kOtherTerm;
  row_holder_ = connection;
  return Begun::kYes;
}

void DatabaseServer::commit(Connection connection, const Commit& what) {
  commits_.push_back(what);
  if (row_holder_ == connection) row_holder_.reset();
}

void DatabaseServer::send_to_replica() {
  replica_ = {leader_, row_timeline_, beats, commits_.size()};
}

void DatabaseServer::fail_over_to_replica() {
  connections_.clear();
  lock_.reset();
  row_holder_.reset();
  leader_ = replica_.leader;
  row_timeline_ = replica_.row_timeline;
  beats = replica_.beats;
  commits_.resize(replica_.commits);
  ++timeline;
}

}  // namespace holdfast::sim

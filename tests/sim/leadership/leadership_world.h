// One simulated run of services that share a database: they are frozen, cut off from it, from everybody else, and killed, and
// the server fails over; then there is peace.
//
// The rules: a term has one service's commits; terms only grow in the order of commits; a submission that was acknowledged was
// committed, and once, but for what a failover that loses commits took; nobody takes an answer of an earlier term; in peace one
// service leads before long; and a leader that freezes, or that nobody reaches, is replaced within seconds. The decisions are
// the real Leadership's and the real Servers'. Throws a Violation.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "rendezvous/client/servers.h"
#include "tests/sim/chance.h"
#include "tests/sim/leadership/database_server.h"

namespace holdfast::sim {

struct LeadershipTally {
  int64_t commits = 0, terms = 0, faults = 0;
};

class LeadershipWorld {
 public:
  explicit LeadershipWorld(uint64_t seed);
  ~LeadershipWorld();
  LeadershipTally run();

 private:
  class Service;

  void faults();
  void lose_server();
  void ask_a_service();
  void judge();
  void judge_peace();
  void replace_one_that_freezes();
  void replace_one_that_nobody_reaches();
  void step();

  Chance chance_;
  DatabaseServer server_;
  rendezvous::Servers known_;  // a client's
  std::vector<std::unique_ptr<Service>> services_;
  std::set<int64_t> acknowledged_;
  std::map<int64_t, std::string> committed_in_;  // each term, by whom: those that a failover lost, too
  size_t judged_ = 0;                            // commits
  int64_t now_ms_ = 0, submissions_ = 0, faults_ = 0, answered_term_ = 0;
};

}  // namespace holdfast::sim

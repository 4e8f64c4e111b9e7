// A PostgreSQL database as an operator wants to see it: whether what is committed outlives its server, who leads, and since
// when.
//
// Nothing is written. Thread: any; the functions block.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "rendezvous/store/leadership.h"

namespace holdfast::rendezvous {

struct Replica {
  std::string name, state;         // "" where this user may not see it (pg_monitor may)
  std::string sync;                // "sync", "quorum", "potential" or "async"; "": not known
  std::optional<double> replay_s;  // age of the newest change that it has replayed; none: not known, or it has all
};

struct PostgresqlSurvey {
  std::string server_version, synchronous_commit, synchronous_standby_names;
  std::vector<Replica> replicas;
  std::optional<int64_t> schema;          // the version of Holdfast's tables; none: it has none
  Leader leader;                          // as the table has it; term 0: none ever led
  int64_t led_for_s = 0;                  // since its term began
  bool beats = false;                     // whether somebody counted up within a second
  int64_t clock_ms = 0;                   // the server's, when it was asked
  int64_t asked_ms = 0, answered_ms = 0;  // wall time here, before and after
};

// Takes a little more than a second where there are tables. Throws as PostgresqlDatabase does.
PostgresqlSurvey survey_postgresql(const std::string& address);

}  // namespace holdfast::rendezvous

// The PostgreSQL database of several services: is it there, does what it acknowledges outlive its server, who leads, and do all
// clocks agree.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "ops/cli/doctor/doctor.h"
#include "ops/cli/terminal/quantities.h"
#include "rendezvous/store/job_store.h"
#include "rendezvous/store/postgresql/address.h"
#include "rendezvous/store/postgresql/survey.h"

namespace holdfast::ops {
namespace {

using rendezvous::PostgresqlSurvey;
using rendezvous::Replica;

constexpr double kReplicaBehind_s = 10;

std::string in_words(const Replica& replica) {
  return fmt::format("{} ({}{}{})", replica.name.empty() ? "one without a name" : replica.name,
                     replica.state.empty() ? "state not shown to this user" : replica.state,
                     replica.sync.empty() ? "" : ", " + replica.sync,
                     replica.replay_s ? fmt::format(", {:.1f} s behind", *replica.replay_s) : "");
}

bool is_synchronous(const Replica& replica) {
  return replica.sync == "sync" || replica.sync == "quorum";
}

}  // namespace

Check judge_replicas(const PostgresqlSurvey& seen) {
  std::string who;
  for (const Replica& replica : seen.replicas) who += (who.empty() ? "" : "; ") + in_words(replica);
  const bool named = !seen.synchronous_standby_names.empty();
  const bool there = std::ranges::any_of(seen.replicas, is_synchronous);
  const bool hidden = std::ranges::any_of(seen.replicas, [](const Replica& replica) { return replica.sync.empty(); });
  if (named && !there && hidden) {
    return {"replicas", Verdict::kWarn, fmt::format("{}; which of them are synchronous is not shown to this user", who),
            "GRANT pg_monitor TO the user of --store"};
  }
  if (named && !there) {
    return {"replicas", Verdict::kFail,
            fmt::format("synchronous_standby_names is '{}', and no such replica is connected{}{}: every commit waits",
                        seen.synchronous_standby_names, who.empty() ? "" : ", only ", who),
            "start that replica, or take its name out of synchronous_standby_names (ALTER SYSTEM; SELECT pg_reload_conf())"};
  }
  if (seen.replicas.empty()) {
    return {"replicas", Verdict::kWarn, "none: if the server's machine is lost, so is the database",
            "follow it with a replica, and name that in synchronous_standby_names: then nothing that was answered is lost"};
  }
  if (!there) {
    return {"replicas", Verdict::kWarn, who + ": none is synchronous, and a failover may lose what was answered last",
            "name one in synchronous_standby_names (ALTER SYSTEM; SELECT pg_reload_conf())"};
  }
  const auto behind = [](const Replica& replica) { return replica.replay_s.value_or(0) > kReplicaBehind_s; };
  if (std::ranges::any_of(seen.replicas, behind))
    return {"replicas", Verdict::kWarn, who, "one is far behind: look at its machine's load and disk, and at the network"};
  return {"replicas", Verdict::kOk, who, ""};
}

Check judge_leader(const PostgresqlSurvey& seen) {
  if (!seen.schema) {
    return {"leader", Verdict::kWarn, "the database has no tables of Holdfast yet",
            "start the services; `holdfast store copy` moves a database there"};
  }
  if (seen.leader.term == 0)
    return {"leader", Verdict::kFail, "no service ever led with this database", "start one: holdfast serve --store"};
  const std::string who = fmt::format("{} in term {}, for {}", seen.leader.address, seen.leader.term,
                                      seconds_text(static_cast<double>(std::max<int64_t>(0, seen.led_for_s))));
  if (seen.beats) return {"leader", Verdict::kOk, who, ""};
  return {"leader", Verdict::kFail, "nobody leads now: the last was " + who,
          "look at the services' logs: journalctl -u holdfast; one that runs takes the lead within three seconds"};
}

Check judge_database_clock(const PostgresqlSurvey& seen) {
  const double ahead_s = static_cast<double>(2 * seen.clock_ms - seen.asked_ms - seen.answered_ms) / 2000;
  if (std::abs(ahead_s) <= kClocksApart_s)
    return {"database clock", Verdict::kOk, fmt::format("within {:.0f} s of this machine's", kClocksApart_s), ""};
  return {"database clock", Verdict::kWarn,
          fmt::format("{:.1f} s {} of this machine's", std::abs(ahead_s), ahead_s > 0 ? "ahead" : "behind"),
          "who leads does not hang on it, but times that people compare do: run an NTP client on both"};
}

std::vector<Check> check_postgresql(const std::string& store) {
  try {
    const PostgresqlSurvey seen = rendezvous::survey_postgresql(store);
    const std::string name = rendezvous::address_in_words(store);
    std::vector<Check> checks{{"database", Verdict::kOk, fmt::format("{} is of PostgreSQL {}", name, seen.server_version), ""}};
    if (seen.synchronous_commit == "off") {
      checks.push_back(
          {"commits", Verdict::kWarn, "synchronous_commit is off",
           "Holdfast switches it on for itself; other programs of this server may lose what they were told is kept"});
    } else {
      checks.push_back({"commits", Verdict::kOk,
                        "durable when they are acknowledged: synchronous_commit is " + seen.synchronous_commit, ""});
    }
    checks.push_back(judge_replicas(seen));
    checks.push_back(judge_leader(seen));
    checks.push_back(judge_database_clock(seen));
    return checks;
  } catch (const rendezvous::StoreError& error) {
    return {
        {"database", Verdict::kFail, error.what(), "is --store right, does the server run, and does it let this machine in?"}};
  }
}

}  // namespace holdfast::ops

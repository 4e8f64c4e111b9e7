#include "rendezvous/store/postgresql/survey.h"

#include <chrono>
#include <thread>

#include "rendezvous/store/postgresql/database.h"
#include "rendezvous/store/postgresql/schema.h"

namespace holdfast::rendezvous {
namespace {

constexpr std::chrono::milliseconds kBetweenLooks{1000};  // a leader counts up four times in it

int64_t wall_ms() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::system_clock::now().time_since_epoch()).count();
}

std::string setting(PostgresqlDatabase& database, const char* name) {
  auto q = database.prepare("SELECT coalesce(current_setting(?, true), '')");
  return q.with(name).step() ? q.text(0) : "";
}

// The server's own setting: this connection has another.
std::string default_synchronous_commit(PostgresqlDatabase& database) {
  auto q = database.prepare("SELECT reset_val FROM pg_settings WHERE name = 'synchronous_commit'");
  return q.step() ? q.text(0) : "";
}

int64_t number(PostgresqlDatabase& database, const char* sql) {
  auto q = database.prepare(sql);
  return q.step() ? q.integer(0) : 0;
}

std::vector<Replica> replicas(PostgresqlDatabase& database) {
  std::vector<Replica> found;
  auto q = database.prepare(
      "SELECT coalesce(application_name, ''), coalesce(state, ''), coalesce(sync_state, ''), "
      "CAST(extract(epoch FROM replay_lag) AS double precision) FROM pg_stat_replication ORDER BY 1");
  while (q.step()) found.push_back({q.text(0), q.text(1), q.text(2), q.maybe_real(3)});
  return found;
}

}  // namespace

PostgresqlSurvey survey_postgresql(const std::string& address) {
  PostgresqlDatabase database({.address = address, .application_name = "holdfast doctor", .reads_only = true});
  PostgresqlSurvey seen;
  seen.asked_ms = wall_ms();
  seen.clock_ms = number(database, "SELECT CAST(extract(epoch FROM clock_timestamp()) * 1000 AS bigint)");
  seen.answered_ms = wall_ms();
  seen.server_version = setting(database, "server_version");
  seen.synchronous_commit = default_synchronous_commit(database);
  seen.synchronous_standby_names = setting(database, "synchronous_standby_names");
  seen.replicas = replicas(database);
  if (number(database, "SELECT CASE WHEN to_regclass('leadership') IS NULL THEN 0 ELSE 1 END") == 0) return seen;
  seen.schema = schema_version(database);
  auto row = database.prepare(
      "SELECT term, service, address, tokens, CAST(extract(epoch FROM clock_timestamp()) AS bigint) - taken_ms / 1000 FROM "
      "leadership");
  if (row.step()) {
    seen.leader = {row.integer(0), row.text(1), row.text(2), row.text(3)};
    seen.led_for_s = row.integer(4);
  }
  const int64_t before = number(database, "SELECT number FROM beats");
  std::this_thread::sleep_for(kBetweenLooks);
  seen.beats = number(database, "SELECT number FROM beats") != before;
  return seen;
}

}  // namespace holdfast::rendezvous

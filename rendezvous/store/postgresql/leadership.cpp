#include "rendezvous/store/postgresql/leadership.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <thread>

#include "rendezvous/store/job_store.h"
#include "rendezvous/store/postgresql/schema.h"

namespace holdfast::rendezvous {
namespace {

// A key of this database's table, so that several services of one server have locks of their own.
constexpr const char* kLock =
    "SELECT CASE WHEN pg_try_advisory_lock(1215261765, 'leadership'::regclass::oid::int) THEN 1 ELSE 0 END";

using std::chrono::steady_clock;

int64_t in_ms(steady_clock::time_point moment) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(moment.time_since_epoch()).count();
}

// The server ends a connection when it is told to, but not before it says that it was told.
constexpr int kDeposeLooks = 50;
constexpr std::chrono::milliseconds kDeposePause{10};

}  // namespace

std::string application_name(const std::string& service, const std::string& address) {
  return "holdfast " + service + (address.empty() ? "" : " " + address);
}

std::string name_of_reading(const std::string& service) {
  return application_name(service, "reads");
}

PostgresqlLeadership::PostgresqlLeadership(LeadershipOptions options)
    : db_({.address = options.database,
           .application_name = application_name(options.service, options.address),
           .patience = options.patience}),
      leadership_(*this, {0, options.service, options.address, options.tokens}, options.patience.count()) {
  make_tables(db_);
}

bool PostgresqlLeadership::try_to_lead(const Seen& seen) {
  const bool led = term() > 0;
  SeenOfLeader on_clock{std::nullopt, seen.referred};
  if (seen.unanswered_since) on_clock.unanswered_since_ms = in_ms(*seen.unanswered_since);
  const bool leads = leadership_.try_to_lead(in_ms(steady_clock::now()), on_clock);
  if (leads && !led) spdlog::info("this service leads with the database {}, in term {}", db_.name(), term());
  return leads;
}

Leader PostgresqlLeadership::leader() {
  auto q = db_.prepare("SELECT term, service, address, tokens FROM leadership");
  return q.step() ? Leader{q.integer(0), q.text(1), q.text(2), q.text(3)} : Leader{};
}

DatabaseSeen PostgresqlLeadership::look_around() {
  DatabaseSeen seen;
  auto names = db_.prepare(
      "SELECT DISTINCT application_name FROM pg_stat_activity WHERE datname = current_database() AND "
      "starts_with(application_name, 'holdfast ') AND application_name LIKE '%://%'");
  while (names.step()) {
    const std::string name = names.text(0), words = name.substr(name.find(' ') + 1);
    const size_t blank = words.find(' ');
    if (blank != std::string::npos) seen.services.push_back({words.substr(0, blank), words.substr(blank + 1)});
  }
  std::ranges::sort(seen.services, {}, &ConnectedService::address);
  auto q = db_.prepare(
      "SELECT count(*), coalesce(sum(CASE WHEN sync_state IN ('sync', 'quorum') THEN 1 ELSE 0 END), 0), "
      "CAST(max(extract(epoch FROM replay_lag)) AS double precision) FROM pg_stat_replication");
  if (q.step()) {
    seen.replicas = q.integer(0);
    seen.synchronous = q.integer(1);
    seen.lag_s = q.maybe_real(2);
  }
  return seen;
}

bool PostgresqlLeadership::take_lock() {
  auto q = db_.prepare(kLock);
  return q.step() && q.integer(0) == 1;
}

TermRow PostgresqlLeadership::lock_row() {
  db_.begin();
  auto q = db_.prepare("SELECT term, timeline FROM leadership FOR UPDATE");
  return q.step() ? TermRow{q.integer(0), q.integer(1)} : TermRow{};
}

void PostgresqlLeadership::write_row(const Leader& leader, int64_t timeline) {
  db_.prepare(
         "UPDATE leadership SET term = ?, service = ?, address = ?, tokens = ?, timeline = ?, "
         "taken_ms = CAST(extract(epoch FROM clock_timestamp()) * 1000 AS bigint)")
      .with(leader.term, leader.service, leader.address, leader.tokens, timeline)
      .run();
  db_.commit();
}

// The first eight digits of a segment's name. pg_control_checkpoint() tells of it only after the next checkpoint.
int64_t PostgresqlLeadership::timeline() {
  auto q = db_.prepare("SELECT CAST(CAST('x' || substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8) AS bit(32)) AS bigint)");
  return q.step() ? q.integer(0) : 0;
}

int64_t PostgresqlLeadership::beats() {
  auto q = db_.prepare("SELECT number FROM beats");
  return q.step() ? q.integer(0) : 0;
}

void PostgresqlLeadership::count_beats(int64_t by) {
  db_.prepare("UPDATE beats SET number = number + ? WHERE (SELECT term FROM leadership) = ?").with(by, term()).run();
  if (db_.changes() == 0)
    throw LostLeadership(
        fmt::format("another service leads with the database {} now: this one did in term {}", db_.name(), term()));
}

void PostgresqlLeadership::depose(const Leader& leader) {
  spdlog::warn(
      "the service {} at {}, which leads in term {}, stands still or is reached by nobody: its connections to the "
      "database are ended",
      leader.service, leader.address, leader.term);
  for (int look = 0; look < kDeposeLooks; ++look) {
    auto q = db_.prepare(
        "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE datname = current_database() AND "
        "(application_name = ?1 OR starts_with(application_name, ?1 || ' ')) AND application_name <> ?2");
    q.with(application_name(leader.service), name_of_reading(leader.service));
    if (!q.step() || q.integer(0) == 0) return;
    std::this_thread::sleep_for(kDeposePause);
  }
}

void settle_timeline(const LeadershipOptions& options, int64_t term, int64_t timeline) {
  PostgresqlDatabase db(
      {.address = options.database, .application_name = application_name(options.service), .patience = options.patience});
  db.prepare("UPDATE leadership SET timeline = ? WHERE term = ?").with(timeline, term).run();
  db.settle();
}

}  // namespace holdfast::rendezvous

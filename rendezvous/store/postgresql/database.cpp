#include "rendezvous/store/postgresql/database.h"

#include <fmt/format.h>
#include <libpq-fe.h>
#include <poll.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <utility>
#include <vector>

#include "rendezvous/store/job_store.h"
#include "rendezvous/store/postgresql/address.h"
#include "rendezvous/store/postgresql/cursor.h"
#include "rendezvous/store/postgresql/sql_text.h"
#include "rendezvous/text/errno_text.h"

namespace holdfast::rendezvous {
namespace {

using std::chrono::steady_clock;

constexpr size_t kSentMost = 256;  // before outcomes are read: what the server answers must fit its buffers
constexpr const char* kDiskFull = "53100";
constexpr const char* kDivisionByZero = "22012";
constexpr const char* kGeneratedIds[] = {"events", "steps"};

bool has_generated_ids(const std::string& table) {
  return std::ranges::find(kGeneratedIds, table) != std::end(kGeneratedIds);
}

std::string without_newline(const char* text) {
  std::string line = text == nullptr ? "" : text;
  while (!line.empty() && (line.back() == '\n' || line.back() == ' ')) line.pop_back();
  std::ranges::replace(line, '\n', ' ');
  return line;
}

}  // namespace

void PostgresqlDatabase::Closed::operator()(pg_conn* connection) const {
  PQfinish(connection);
}

PostgresqlDatabase::PostgresqlDatabase(const PostgresqlConnect& connect)
    : name_(address_in_words(connect.address)), patience_(connect.patience), term_(connect.term) {
  const auto words = connection_words(connect.address, connect.application_name);
  std::vector<const char*> keys, values;
  for (const auto& [key, value] : words) {
    keys.push_back(key.c_str());
    values.push_back(value.c_str());
  }
  keys.push_back(nullptr);
  values.push_back(nullptr);
  connection_.reset(PQconnectdbParams(keys.data(), values.data(), 0));
  if (connection_ == nullptr) throw StoreError("no memory for a connection to the database");
  if (PQstatus(connection_.get()) != CONNECTION_OK) {
    const std::string why =
        fmt::format("cannot connect to the database {}: {}", name_, without_newline(PQerrorMessage(connection_.get())));
    // A server that answers has refused this user or knows no such database: that does not pass by itself.
    const PGPing there = PQpingParams(keys.data(), values.data(), 0);
    if (there == PQPING_NO_RESPONSE || there == PQPING_REJECT || PQstatus(connection_.get()) == CONNECTION_OK)
      throw StoreAway(why);
    throw StoreError(why);
  }
  set_up(connect.reads_only);
}

PostgresqlDatabase::~PostgresqlDatabase() {
  cursors_.clear();
}

void PostgresqlDatabase::set_up(bool reads_only) {
  PQsetNoticeProcessor(
      connection_.get(), [](void*, const char* said) { spdlog::debug("PostgreSQL says: {}", without_newline(said)); }, nullptr);
  if (PQserverVersion(connection_.get()) < 130000) {
    throw StoreError(fmt::format("the database {} is of PostgreSQL {}: it must be 13 or newer", name_,
                                 PQparameterStatus(connection_.get(), "server_version")));
  }
  if (const char* encoding = PQparameterStatus(connection_.get(), "server_encoding");
      encoding == nullptr || std::strcmp(encoding, "UTF8") != 0) {
    throw StoreError(
        fmt::format("the database {} keeps text as {}: make one with createdb --encoding=UTF8 --template=template0", name_,
                    encoding == nullptr ? "something unknown" : encoding));
  }
  if (PQsetnonblocking(connection_.get(), 1) != 0 || PQenterPipelineMode(connection_.get()) != 1)
    lose("the connection takes no pipeline");
  // A transaction whose process stands still keeps its locks: not for longer than the others have patience.
  execute(fmt::format("SET synchronous_commit = on; SET idle_in_transaction_session_timeout = {}; SET statement_timeout = {}",
                      patience_.count(), patience_.count()));
  if (reads_only) execute("SET default_transaction_read_only = on; SET default_transaction_isolation = 'repeatable read'");
}

int PostgresqlDatabase::backend() const {
  return PQbackendPID(connection_.get());
}

void PostgresqlDatabase::insist_on_connection() const {
  if (!lost_.empty()) throw StoreAway(fmt::format("the connection to the database {} is lost: {}", name_, lost_));
}

void PostgresqlDatabase::lose(const std::string& why) {
  lost_ = why;
  sent_.clear();
  insist_on_connection();
  throw StoreAway(why);  // not reached
}

void PostgresqlDatabase::fail(const Sent& sent, const pg_result* result) {
  const char* state = PQresultErrorField(result, PG_DIAG_SQLSTATE);
  const std::string said = without_newline(PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY));
  const std::string code = state == nullptr ? "" : state;
  if (term_ && code == kDivisionByZero) {
    throw LostLeadership(fmt::format("another service leads with the database {} now: this one did in term {}", name_, *term_));
  }
  // Ended by the server or its operator, or because a transaction stood still.
  if (PQstatus(connection_.get()) == CONNECTION_BAD || code.starts_with("57P") || code == "25P03") {
    lost_ = said.empty() ? without_newline(PQerrorMessage(connection_.get())) : said;
    insist_on_connection();
  }
  const std::string text = fmt::format("database {}: {} failed: {}", name_, sent.doing, said);
  if (code == kDiskFull) throw StoreFull(text);
  // A primary that became a standby meanwhile, and a server that has too much to do, are other things tomorrow.
  // So is a lock that somebody held for too long.
  if (code == "25006" || code == "57014" || code == "55P03" || code.starts_with("53") || code.starts_with("08"))
    throw StoreAway(text);
  throw StoreError(text);
}

// --- the pipeline

void PostgresqlDatabase::wait(short events) {
  pollfd there{PQsocket(connection_.get()), events, 0};
  const auto deadline = steady_clock::now() + patience_;
  while (true) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - steady_clock::now()).count();
    const int ready = poll(&there, 1, static_cast<int>(std::max<int64_t>(left, 0)));
    if (ready > 0) return;
    if (ready == 0) lose(fmt::format("it said nothing for {} s", static_cast<double>(patience_.count()) / 1000));
    if (errno != EINTR) lose(describe_errno(errno));
  }
}

void PostgresqlDatabase::flush() {
  while (true) {
    const int left = PQflush(connection_.get());
    if (left == 0) return;
    if (left < 0) lose(without_newline(PQerrorMessage(connection_.get())));
    wait(POLLIN | POLLOUT);
    if (PQconsumeInput(connection_.get()) != 1) lose(without_newline(PQerrorMessage(connection_.get())));
  }
}

pg_result* PostgresqlDatabase::next_result() {
  while (PQisBusy(connection_.get()) == 1) {
    wait(POLLIN);
    if (PQconsumeInput(connection_.get()) != 1) lose(without_newline(PQerrorMessage(connection_.get())));
  }
  return PQgetResult(connection_.get());
}

void PostgresqlDatabase::settle() {
  insist_on_connection();
  if (sent_.empty()) return;
  if (PQpipelineSync(connection_.get()) != 1) lose(without_newline(PQerrorMessage(connection_.get())));
  flush();
  std::unique_ptr<pg_result, void (*)(pg_result*)> failure(nullptr, [](pg_result* result) { PQclear(result); });
  Sent failed{};
  while (true) {
    pg_result* result = next_result();
    if (result == nullptr) {  // the end of one statement's results
      if (PQstatus(connection_.get()) == CONNECTION_BAD) lose(without_newline(PQerrorMessage(connection_.get())));
      if (!sent_.empty()) sent_.pop_front();
      continue;
    }
    const ExecStatusType status = PQresultStatus(result);
    if (status == PGRES_PIPELINE_SYNC) {
      PQclear(result);
      break;
    }
    const Sent now = sent_.empty() ? Sent{} : sent_.front();
    if (status == PGRES_FATAL_ERROR && failure == nullptr) {
      failure.reset(result);
      failed = now;
      continue;
    }
    if (status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK) {
      if (now.cursor != nullptr && now.prepares) now.cursor->prepared = true;
      if (now.cursor != nullptr && !now.prepares) {
        changes_ = std::atoll(PQcmdTuples(result));
        if (now.cursor->counts_commits && PQntuples(result) == 1) commits_ = std::atoll(PQgetvalue(result, 0, 0));
        if (now.keeps_rows) {
          now.cursor->take(result);
          continue;
        }
      }
    }
    PQclear(result);
  }
  sent_.clear();
  if (failure != nullptr) fail(failed, failure.get());
}

SqlCursor& PostgresqlDatabase::cursor(std::string_view sql) {
  auto found = cursors_.find(sql);
  if (found == cursors_.end()) {
    auto made = std::make_unique<PostgresqlCursor>(*this, sql, fmt::format("s{}", cursors_.size()));
    found = cursors_.emplace(std::string(sql), std::move(made)).first;
  }
  return *found->second;
}

// --- transactions

// BEGIN and the like.
void PostgresqlDatabase::word(const std::string& sql) {
  insist_on_connection();
  if (PQsendQueryParams(connection_.get(), sql.c_str(), 0, nullptr, nullptr, nullptr, nullptr, 0) != 1)
    lose(without_newline(PQerrorMessage(connection_.get())));
  sent_.push_back({nullptr, fmt::format("running \"{}\"", sql.substr(0, 120))});
}

void PostgresqlDatabase::execute(const std::string& sql) {
  settle();
  // The pipeline takes one statement at a time.
  for (const std::string& statement : statements_of(sql)) word(statement);
  settle();
}

// The row is locked until the transaction ends: a service that takes the leadership waits for it. A division by zero is an
// error that aborts the transaction without a journey to the server and back.
void PostgresqlDatabase::insist_on_term() {
  static const std::string kInsist =
      "WITH held AS (UPDATE leadership SET commits = commits + 1 WHERE term = ? RETURNING commits) "
      "SELECT coalesce((SELECT max(commits) FROM held), 1) / (SELECT count(*) FROM held)";
  auto& found = static_cast<PostgresqlCursor&>(cursor(kInsist));
  found.counts_commits = true;
  SqlStatement(found).with(*term_).run();
}

void PostgresqlDatabase::confirm() {
  if (!term_) return;
  prepare("SELECT 1 / count(*) FROM leadership WHERE term = ?").with(*term_).step();
}

void PostgresqlDatabase::begin() {
  word("BEGIN");
  in_transaction_ = true;
  if (term_) insist_on_term();
}

void PostgresqlDatabase::commit() {
  in_transaction_ = false;
  word("COMMIT");
  try {
    settle();
  } catch (const StoreError&) {
    if (lost_.empty() && PQtransactionStatus(connection_.get()) != PQTRANS_IDLE) roll_back();
    throw;
  }
}

void PostgresqlDatabase::roll_back() {
  in_transaction_ = false;
  word("ROLLBACK");
  settle();
}

int64_t PostgresqlDatabase::changes() {
  settle();
  return changes_;
}

// --- ids

std::string PostgresqlDatabase::bytes_of(const std::string& column) const {
  return fmt::format("octet_length({})", column);
}

std::string PostgresqlDatabase::as_kept(const std::string& text) const {
  return storable_text(text);
}

int64_t PostgresqlDatabase::last_id(const std::string& table) {
  if (has_generated_ids(table)) {
    auto q = prepare(fmt::format("SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM {}_id_seq", table));
    return q.step() ? q.integer(0) : 0;
  }
  auto q = prepare("SELECT last FROM id_counters WHERE name = ?");
  return q.with(table).step() ? q.integer(0) : 0;
}

void PostgresqlDatabase::note_id(const std::string& table, int64_t id) {
  if (has_generated_ids(table)) return skip_ids_to(table, id);
  prepare(
      "INSERT INTO id_counters (name, last) VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET last = greatest(id_counters.last, "
      "excluded.last)")
      .with(table, id)
      .run();
}

void PostgresqlDatabase::skip_ids_to(const std::string& table, int64_t id) {
  if (!has_generated_ids(table)) return note_id(table, id);
  prepare(fmt::format("SELECT setval('{0}_id_seq', greatest(?, (SELECT last_value FROM {0}_id_seq)))", table)).with(id).run();
}

// --- statements

void PostgresqlDatabase::make_room() {
  insist_on_connection();
  if (sent_.size() > kSentMost) settle();
}

void PostgresqlDatabase::send_prepare(PostgresqlCursor& cursor, const std::string& statement, const std::string& sql,
                                      const std::vector<unsigned>& types, const std::string& doing) {
  make_room();
  if (PQsendPrepare(connection_.get(), statement.c_str(), sql.c_str(), static_cast<int>(types.size()), types.data()) != 1)
    lose(without_newline(PQerrorMessage(connection_.get())));
  sent_.push_back({&cursor, doing, true, false});
}

void PostgresqlDatabase::send_use(PostgresqlCursor& cursor, const std::string& statement, const Parameters& with,
                                  bool keeps_rows, const std::string& doing) {
  if (cursor.prepared) make_room();
  if (PQsendQueryPrepared(connection_.get(), statement.c_str(), static_cast<int>(with.values.size()), with.values.data(),
                          with.lengths.data(), with.formats.data(), 0) != 1) {
    lose(without_newline(PQerrorMessage(connection_.get())));
  }
  sent_.push_back({&cursor, doing, false, keeps_rows});
}

}  // namespace holdfast::rendezvous

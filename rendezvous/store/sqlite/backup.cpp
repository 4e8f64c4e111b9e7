// VACUUM INTO rather than SQLite's backup interface: rows that were deleted (old log lines) are not in the copy.
#include "rendezvous/store/sqlite/backup.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "rendezvous/store/job_store.h"
#include "rendezvous/store/sqlite/database.h"
#include "rendezvous/store/sqlite/schema.h"

namespace holdfast::rendezvous {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

// SQLite makes a database where there is none.
void insist_on(const std::string& path) {
  insist_on_file(path);
  std::error_code error;
  if (fs::file_size(path, error) == 0) throw StoreError(fmt::format("{}: is empty, a database is not", path));
}

int64_t number(SqliteDatabase& database, const std::string& sql) {
  auto row = database.prepare(sql);
  return row.step() ? row.integer(0) : 0;
}

void check_integrity(SqliteDatabase& database) {
  auto rows = database.prepare("PRAGMA integrity_check(10)");
  std::string wrong;
  while (rows.step()) {
    if (const std::string said = rows.text(0); said != "ok") wrong += (wrong.empty() ? "" : "; ") + said;
  }
  if (!wrong.empty()) throw StoreError(fmt::format("{}: is damaged: {}", database.name(), wrong));
}

int64_t checked_version(SqliteDatabase& database) {
  const int64_t tables =
      number(database,
             "SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name IN ('schema_version', 'jobs', 'generations')");
  if (tables != 3) throw StoreError(fmt::format("{}: is a database, but not one of a Holdfast service", database.name()));
  const int64_t version = number(database, "SELECT max(version) FROM schema_version");
  if (version > schema_version_known()) {
    throw StoreError(
        fmt::format("{}: has schema version {}, this program knows {}: it was written by a newer holdfast; use "
                    "that one",
                    database.name(), version, schema_version_known()));
  }
  return version;
}

// The jobs that the sources name, that whose weights the job begins with or serves, and the one that it comes after, by id or
// by name.
void add_needed(std::set<std::string>& needed, const Json& spec, const Json& sources) {
  for (const Json& source : sources) {
    if (source.is_object()) needed.insert(source.value("job", std::string()));
  }
  if (!spec.is_object()) return;
  needed.insert(spec.value("after", std::string()));
  const std::string begins_with = spec.value("init_from", std::string());  // job:ID@STEP, or a path
  if (begins_with.starts_with("job:")) needed.insert(begins_with.substr(4, begins_with.find('@') - 4));
}

void list_jobs(SqliteDatabase& database, DatabaseContents& contents) {
  std::set<std::string> needed;  // ids and names
  std::vector<std::pair<std::string, std::string>> ended;
  auto rows = database.prepare("SELECT id, name, state, spec, committed_step, resume FROM jobs ORDER BY number");
  while (rows.step()) {
    const Json spec = Json::parse(rows.text(3), nullptr, false);
    const std::string store = spec.is_object() ? spec.value("checkpoint_store", std::string()) : std::string();
    if (is_ended(job_state_from(rows.text(2)))) {
      if (store.empty()) ended.emplace_back(rows.text(0), rows.text(1));
      continue;
    }
    contents.open_jobs.push_back({rows.text(0), rows.text(1), rows.text(2), store, rows.integer(4)});
    add_needed(needed, spec, Json::parse(rows.text(5), nullptr, false));
  }
  needed.erase("");
  for (auto job = ended.rbegin(); job != ended.rend(); ++job)  // a name means the newest that has it
    contents.ended_jobs.push_back({job->first, needed.erase(job->first) + needed.erase(job->second) > 0});
  std::ranges::reverse(contents.ended_jobs);
}

}  // namespace

void insist_on_file(const std::string& path) {
  std::error_code error;
  const auto status = fs::status(path, error);
  if (status.type() == fs::file_type::not_found) throw StoreError(fmt::format("{}: there is no such file", path));
  if (error) throw StoreError(fmt::format("{}: cannot be looked at: {}", path, error.message()));
  if (!fs::is_regular_file(status)) throw StoreError(fmt::format("{}: is no regular file", path));
}

void copy_database(const std::string& from, const std::string& to) {
  insist_on(from);
  SqliteDatabase database(from);
  database.prepare("VACUUM INTO ?").with(to).run();
}

void fold_write_ahead_log(const std::string& path) {
  insist_on(path);
  SqliteDatabase database(path);
  database.execute("PRAGMA wal_checkpoint(TRUNCATE); PRAGMA journal_mode=DELETE");
}

DatabaseContents inspect_database(const std::string& path) {
  insist_on(path);
  SqliteDatabase database(path);
  check_integrity(database);
  DatabaseContents contents;
  contents.schema_version = checked_version(database);
  contents.jobs = number(database, "SELECT count(*) FROM jobs");
  contents.workers = number(database, "SELECT count(*) FROM workers");
  contents.checkpoints = number(database, "SELECT count(*) FROM checkpoints");
  contents.events = number(database, "SELECT count(*) FROM events");
  contents.steps = number(database, "SELECT count(*) FROM steps");
  list_jobs(database, contents);
  contents.bytes = static_cast<int64_t>(fs::file_size(path));
  return contents;
}

}  // namespace holdfast::rendezvous

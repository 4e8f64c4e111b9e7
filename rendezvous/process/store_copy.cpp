#include "rendezvous/process/store_copy.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <filesystem>
#include <memory>
#include <system_error>

#include "rendezvous/data_dir/directory_lock.h"
#include "rendezvous/store/job_store.h"
#include "rendezvous/store/postgresql/address.h"
#include "rendezvous/store/postgresql/leader_beats.h"
#include "rendezvous/store/postgresql/leadership.h"
#include "rendezvous/store/postgresql/schema.h"
#include "rendezvous/store/sql/copy.h"
#include "rendezvous/store/sqlite/rescue.h"
#include "rendezvous/store/sqlite/store.h"
#include "rendezvous/text/random_hex.h"

namespace holdfast::rendezvous {
namespace {

namespace fs = std::filesystem;

// A database, and what keeps others from writing to it.
class Place {
 public:
  enum class Role { kFrom, kTo };
  Place(const std::string& place, Role role) {
    if (is_postgresql_address(place)) {
      take_postgresql(place);
    } else {
      take_directory(place, role);
    }
  }
  SqlDatabase& database() { return *database_; }

 private:
  void take_postgresql(const std::string& address) {
    auto leadership = std::make_unique<PostgresqlLeadership>(
        LeadershipOptions{.database = address, .service = "copy " + random_hex(4), .address = "", .tokens = ""});
    if (!leadership->try_to_lead()) {
      throw StoreError(fmt::format("the service at {} leads with {}: stop it, and those that stand by, first",
                                   leadership->leader().address, address_in_words(address)));
    }
    auto database = std::make_unique<PostgresqlDatabase>(PostgresqlConnect{.address = address, .term = leadership->term()});
    migrate(*database);
    database_ = std::move(database);
    beats_ = std::make_unique<LeaderBeats>(std::move(leadership));
  }

  void take_directory(const std::string& directory, Role role) {
    const std::string file = directory + "/holdfast.sqlite";
    std::error_code error;
    if (role == Role::kFrom && !fs::exists(file, error))
      throw StoreError(fmt::format("{}: there is no such file: name a service's data directory, or postgresql://…", file));
    const bool existed = fs::exists(directory, error);
    fs::create_directories(directory, error);
    if (error) throw StoreError(fmt::format("cannot make the data directory {}: {}", directory, error.message()));
    if (!existed) chmod(directory.c_str(), 0700);
    if (const auto taken = lock_.take(directory, "stop it, copy, and start it again"); !taken) throw StoreError(taken.error());
    refuse_lost(file);
    database_ = open_sqlite_database(file);
  }

  DirectoryLock lock_;
  std::unique_ptr<SqlDatabase> database_;
  std::unique_ptr<LeaderBeats> beats_;
};

}  // namespace

tl::expected<StoreCopyReport, std::string> copy_store(const std::string& from, const std::string& to) {
  StoreCopyReport report;
  try {
    Place source(from, Place::Role::kFrom), target(to, Place::Role::kTo);
    copy_rows(source.database(), target.database(),
              [&](const std::string& table, int64_t rows) { report.tables.emplace_back(table, rows); });
  } catch (const std::exception& error) {
    return tl::unexpected(std::string(error.what()));
  }
  return report;
}

}  // namespace holdfast::rendezvous

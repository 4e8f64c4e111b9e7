#include "rendezvous/store/sqlite/rescue.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <cerrno>
#include <ctime>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <system_error>

#include "rendezvous/store/job_store.h"

namespace holdfast::rendezvous {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void fail(const std::string& doing) {
  throw StoreError(fmt::format("cannot {}: {}", doing, std::generic_category().message(errno)));
}

std::string folder_of(const std::string& path) {
  const std::string folder = fs::path(path).parent_path().string();
  return folder.empty() ? "." : folder;
}

// "DIR/holdfast" of "DIR/holdfast.sqlite".
std::string stem_of(const std::string& database_path) {
  return (fs::path(folder_of(database_path)) / fs::path(database_path).stem()).string();
}

void sync(const std::string& path, int flags) {
  const int file = ::open(path.c_str(), flags | O_CLOEXEC);
  if (file < 0) fail("open " + path);
  const bool synced = ::fsync(file) == 0;
  const int error = errno;
  ::close(file);
  errno = error;
  if (!synced) fail("sync " + path);
}

void give_name(const std::string& unfinished, const std::string& path) {
  sync(unfinished, O_RDONLY);
  if (::rename(unfinished.c_str(), path.c_str()) != 0) fail(fmt::format("name {} as {}", unfinished, path));
  sync(folder_of(path), O_RDONLY | O_DIRECTORY);
}

std::string free_name(const std::string& database_path) {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  char time[32];
  std::strftime(time, sizeof time, "%Y%m%dT%H%M%SZ", &parts);
  const std::string stamped = fmt::format("{}.rescued-{}", stem_of(database_path), time);
  std::string name = stamped + ".sqlite";
  for (int more = 2; fs::exists(name); ++more) name = fmt::format("{}-{}.sqlite", stamped, more);
  return name;
}

void save(SqliteDatabase& database, const std::string& path) {
  const std::string unfinished = path + ".unfinished";
  try {
    if (database.in_transaction()) database.execute("ROLLBACK");
    database.prepare("VACUUM INTO ?").with(unfinished).run();
    give_name(unfinished, path);
  } catch (const std::exception&) {
    ::unlink(unfinished.c_str());
    throw;
  }
}

// The log beside the database's name would be taken for that of another file that has the name now. And the file itself is
// whole by this, wherever it was moved to.
void empty_log(SqliteDatabase& database) {
  try {
    database.execute("PRAGMA wal_checkpoint(TRUNCATE)");
  } catch (const StoreError& error) {
    spdlog::warn("the write-ahead log of {} stays: {}", database.name(), error.what());
  }
}

void set_mark(const std::string& database_path, const std::string& sentence) {
  const std::string mark = lost_mark(database_path), unfinished = mark + ".unfinished";
  std::ofstream file(unfinished, std::ios::trunc);
  file << sentence << "\n";
  file.close();
  if (!file) fail("write " + unfinished);
  give_name(unfinished, mark);
}

std::string remedy(const std::string& database_path, const std::string& rescued) {
  return fmt::format(
      "All that was kept is saved in {}. To go on from it: stop the service, `holdfast restore {} --data_dir {}`, start the "
      "service again. Workers train on meanwhile. To go on instead with what has the name now, or without any job where "
      "nothing has: remove {}",
      rescued, rescued, folder_of(database_path), lost_mark(database_path));
}

}  // namespace

std::string lost_mark(const std::string& database_path) {
  return stem_of(database_path) + ".lost";
}

std::string rescue(SqliteDatabase& database, const std::string& what_happened) noexcept {
  const std::string head = fmt::format("{} while the service ran with it", what_happened);
  try {
    const std::string rescued = free_name(database.name());
    const std::string sentence = fmt::format("{}. {}", head, remedy(database.name(), rescued));
    set_mark(database.name(), sentence);  // first: a service that is killed meanwhile must not begin anew without a word
    save(database, rescued);
    empty_log(database);
    spdlog::critical("{}", sentence);
    return sentence;
  } catch (const std::exception& error) {
    const std::string sentence = fmt::format(
        "{}, and what it held could not be saved: {}. Put a copy of the database back: stop the service, `holdfast restore "
        "COPY --data_dir {}`, start it again. To go on with what has the name now, or without any job where nothing has: "
        "remove {}",
        head, error.what(), folder_of(database.name()), lost_mark(database.name()));
    spdlog::critical("{}", sentence);
    try {
      set_mark(database.name(), sentence);
    } catch (const std::exception& too) {
      spdlog::critical("{}", too.what());
    }
    return sentence;
  }
}

void refuse_lost(const std::string& database_path) {
  std::ifstream file(lost_mark(database_path));
  if (!file) return;
  std::string sentence((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  while (!sentence.empty() && sentence.back() == '\n') sentence.pop_back();
  throw StoreError(sentence);
}

void remove_lost_mark(const std::string& database_path) {
  const std::string mark = lost_mark(database_path);
  if (::unlink(mark.c_str()) != 0) {
    if (errno == ENOENT) return;
    fail("remove " + mark);
  }
  sync(folder_of(mark), O_RDONLY | O_DIRECTORY);
}

}  // namespace holdfast::rendezvous

#include "tests/rendezvous/store/postgresql_server.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <libpq-fe.h>
#include <pwd.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <memory>
#include <stdexcept>
#include <thread>
#include <vector>

namespace holdfast {
namespace {

namespace fs = std::filesystem;

constexpr std::chrono::seconds kPatience{60};

// Debian has each version in a folder of its own; the newest is taken.
std::string programs_of_debian() {
  std::vector<std::pair<int, std::string>> versions;
  std::error_code none;
  for (const auto& entry : fs::directory_iterator("/usr/lib/postgresql", none)) {
    if (fs::exists(entry.path() / "bin/initdb"))
      versions.emplace_back(std::atoi(entry.path().filename().c_str()), entry.path() / "bin");
  }
  if (versions.empty())
    throw std::runtime_error("there is no PostgreSQL server below /usr/lib/postgresql: ops/setup installs it");
  return std::ranges::max(versions).second;
}

// A child that runs a program as nobody where this process is root's, since PostgreSQL refuses root; its output goes to `log`.
pid_t run(const std::vector<std::string>& words, const std::string& log) {
  const pid_t child = fork();
  if (child != 0) return child;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (freopen(log.c_str(), "a", stdout) == nullptr || dup2(1, 2) < 0) _exit(126);
  if (geteuid() == 0) {
    const passwd* nobody = getpwnam("nobody");
    if (nobody == nullptr || setgid(nobody->pw_gid) != 0 || setuid(nobody->pw_uid) != 0) _exit(126);
    prctl(PR_SET_PDEATHSIG, SIGKILL);  // a change of user clears it
  }
  std::vector<char*> arguments;
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  execv(arguments[0], arguments.data());
  _exit(127);
}

std::string text_of(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace

PostgresqlServer::PostgresqlServer(bool safe) : programs_(programs_of_debian()), safe_(safe) {
  folder_ = testing::TempDir() + "holdfast-pg-XXXXXX";
  if (mkdtemp(folder_.data()) == nullptr) throw std::runtime_error("no folder for PostgreSQL below " + testing::TempDir());
  if (geteuid() == 0) {
    const passwd* nobody = getpwnam("nobody");
    if (nobody == nullptr || chown(folder_.c_str(), nobody->pw_uid, nobody->pw_gid) != 0)
      throw std::runtime_error("the folder of PostgreSQL cannot be given to nobody");
  }
  make();
  start();
}

PostgresqlServer::~PostgresqlServer() {
  kill();
  std::error_code ignored;
  fs::remove_all(folder_, ignored);
}

PostgresqlServer& PostgresqlServer::shared() {
  static PostgresqlServer server;
  return server;
}

void PostgresqlServer::make() {
  const std::string log = folder_ + "/log";
  const pid_t made = run({programs_ + "/initdb", "--pgdata=" + folder_ + "/data", "--auth=trust", "--username=holdfast",
                          "--encoding=UTF8", "--locale=C", "--no-sync", "--no-instructions"},
                         log);
  int status = 0;
  if (waitpid(made, &status, 0) != made || status != 0) throw std::runtime_error("initdb failed: " + text_of(log));
}

void PostgresqlServer::start() {
  const std::string log = folder_ + "/log";
  server_ = run({programs_ + "/postgres", "-D", folder_ + "/data", "-k", folder_, "-c", "listen_addresses=", "-c",
                 "max_connections=40", "-c", "shared_buffers=32MB", "-c", fmt::format("fsync={}", safe_ ? "on" : "off")},
                log);
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  const std::string address = fmt::format("host={} user=holdfast dbname=postgres", folder_);
  while (PQping(address.c_str()) != PQPING_OK) {
    if (std::chrono::steady_clock::now() > deadline) throw std::runtime_error("PostgreSQL does not start: " + text_of(log));
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

// Its processes end when they notice; the memory that they share must be free of them before the next start.
void PostgresqlServer::kill() {
  if (server_ == 0) return;
  ::kill(server_, SIGKILL);
  waitpid(server_, nullptr, 0);
  server_ = 0;
}

std::string PostgresqlServer::fresh_address() {
  const std::string schema = fmt::format("t{}", ++schemas_);
  const std::string server = fmt::format("host={} user=holdfast dbname=postgres", folder_);
  query(server, "CREATE SCHEMA " + schema);
  return server + " options=-csearch_path=" + schema;
}

std::string PostgresqlServer::query(const std::string& address, const std::string& sql) {
  const std::unique_ptr<PGconn, void (*)(PGconn*)> connection(PQconnectdb(address.c_str()), PQfinish);
  const std::unique_ptr<PGresult, void (*)(PGresult*)> result(PQexec(connection.get(), sql.c_str()), PQclear);
  const ExecStatusType status = PQresultStatus(result.get());
  if (status != PGRES_TUPLES_OK && status != PGRES_COMMAND_OK) throw std::runtime_error(PQerrorMessage(connection.get()));
  std::string text;
  for (int row = 0; row < PQntuples(result.get()); ++row) {
    for (int column = 0; column < PQnfields(result.get()); ++column)
      text += (column == 0 ? "" : "|") + std::string(PQgetvalue(result.get(), row, column));
    text += "\n";
  }
  return text;
}

}  // namespace holdfast

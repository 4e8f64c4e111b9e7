#include "ops/cli/chaos/faults.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <sstream>
#include <system_error>
#include <utility>

namespace holdfast::ops {
namespace {

constexpr double kSendPatienceSeconds = 10;  // for a worker to send something that can be corrupted

std::string of_process(int64_t pid, const char* what) {
  std::ifstream file(fmt::format("/proc/{}/{}", pid, what), std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

// Whether `text` is one of the zero-terminated strings of a block, as /proc/PID/environ has them.
bool is_among(const std::string& strings, const std::string& text) {
  return (std::string(1, '\0') + strings).find(std::string(1, '\0') + text + std::string(1, '\0')) != std::string::npos;
}

// Inodes of the sockets that listen on `port`, of both kinds of addresses.
std::set<std::string> listeners(int port) {
  std::set<std::string> inodes;
  for (const char* path : {"/proc/net/tcp", "/proc/net/tcp6"}) {
    std::ifstream table(path);
    std::string line;
    std::getline(table, line);  // the headings
    while (std::getline(table, line)) {
      std::istringstream row(line);
      std::vector<std::string> fields{std::istream_iterator<std::string>(row), {}};
      if (fields.size() > 9 && fields[3] == "0A" && fields[1].ends_with(fmt::format(":{:04X}", port))) inodes.insert(fields[9]);
    }
  }
  return inodes;
}

bool holds_one_of(int64_t pid, const std::set<std::string>& inodes) {
  std::error_code failed;
  for (const auto& entry : std::filesystem::directory_iterator(fmt::format("/proc/{}/fd", pid), failed)) {
    const std::string link = std::filesystem::read_symlink(entry.path(), failed).string();
    if (link.starts_with("socket:[") && inodes.contains(link.substr(8, link.size() - 9))) return true;
  }
  return false;
}

}  // namespace

Process::Process(int64_t pid) : pid_(pid) {
  if (pid > 0) handle_ = static_cast<int>(::syscall(SYS_pidfd_open, static_cast<pid_t>(pid), 0));
}
Process::~Process() {
  if (handle_ >= 0) ::close(handle_);
}
Process::Process(Process&& other) noexcept : pid_(other.pid_), handle_(std::exchange(other.handle_, -1)) {}
Process& Process::operator=(Process&& other) noexcept {
  std::swap(pid_, other.pid_);
  std::swap(handle_, other.handle_);
  return *this;
}

bool Process::signal(int number) const {
  return handle_ >= 0 && ::syscall(SYS_pidfd_send_signal, handle_, number, nullptr, 0) == 0;
}

std::string Process::program() const {
  std::error_code failed;
  std::string name = std::filesystem::read_symlink(fmt::format("/proc/{}/exe", pid_), failed).filename().string();
  constexpr std::string_view kDeleted = " (deleted)";  // it was built anew since
  if (name.ends_with(kDeleted)) name.resize(name.size() - kDeleted.size());
  return name;
}

bool Process::has_in_environment(const std::string& text) const {
  return is_among(of_process(pid_, "environ"), text);
}
bool Process::has_argument(const std::string& text) const {
  return is_among(of_process(pid_, "cmdline"), text);
}

tl::expected<Process, std::string> open_worker(int64_t pid, const std::string& incarnation) {
  Process process(pid);
  if (!process.is_open()) return tl::unexpected(fmt::format("there is no process {} on this node any more", pid));
  if (process.program() != "holdfast-worker" || !process.has_in_environment("HOLDFAST_INTERNAL_INCARNATION=" + incarnation)) {
    return tl::unexpected(
        fmt::format("process {} of this node ({}) is not the worker's that the service speaks of, and is left alone", pid,
                    process.program().empty() ? "another user's" : process.program()));
  }
  return process;
}

tl::expected<Process, std::string> open_service(int64_t pid) {
  Process process(pid);
  if (!process.is_open()) return tl::unexpected(fmt::format("there is no process {} on this node", pid));
  if (process.program() != "holdfast" || !process.has_argument("serve"))
    return tl::unexpected(fmt::format("process {} is no `holdfast serve`, and is left alone", pid));
  return process;
}

tl::expected<Process, std::string> find_service(int port) {
  const std::set<std::string> inodes = listeners(port);
  std::error_code failed;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", failed)) {
    const std::string name = entry.path().filename().string();
    if (inodes.empty() || name.find_first_not_of("0123456789") != std::string::npos) continue;
    if (holds_one_of(std::stoll(name), inodes)) return open_service(std::stoll(name));
  }
  return tl::unexpected(
      fmt::format("no process of this user listens on port {} of this node: give --service_pid, or run chaos "
                  "where the service runs",
                  port));
}

std::string Faults::file_of(const std::string& worker, FaultKind kind) const {
  return fmt::format("{}/{}.{}", drills_, worker, fault_name(kind));
}

bool Faults::consents(const std::string& worker) const {
  return !drills_.empty() && ::access(fmt::format("{}/{}.consents", drills_, worker).c_str(), F_OK) == 0;
}

bool Faults::is_held(const std::string& worker) const {
  return std::ranges::any_of(held_, [&](const Held& held) { return held.worker == worker; });
}

tl::expected<Process, std::string> Faults::service() const {
  return service_pid_ >= 0 ? open_service(service_pid_) : find_service(service_port_);
}

tl::expected<void, std::string> Faults::bring_about(FaultKind kind, const Target& target, double hold_s) {
  if (kind == FaultKind::kCorrupt) hold_s = kSendPatienceSeconds;
  Held held{kind,
            target.worker,
            {},
            "",
            Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(hold_s))};
  if (needs_consent(kind)) {
    held.file = file_of(target.worker, kind);
    if (!std::ofstream(held.file)) return tl::unexpected(fmt::format("cannot make {}", held.file));
  } else {
    auto process = kind == FaultKind::kServiceKill ? service() : open_worker(target.pid, target.incarnation);
    if (!process) return tl::unexpected(process.error());
    if (!process->signal(kind == FaultKind::kFreeze ? SIGSTOP : SIGKILL))
      return tl::unexpected(fmt::format("process {} cannot be sent a signal: it ended, or is another user's", process->pid()));
    held.process = *std::move(process);
  }
  if (lasts(kind) || kind == FaultKind::kCorrupt) held_.push_back(std::move(held));
  return {};
}

std::string Faults::let_go(const Held& held) {
  if (held.kind == FaultKind::kFreeze)
    return held.worker + (held.process.signal(SIGCONT) ? " is thawed" : " ended while frozen");
  const bool was_there = ::unlink(held.file.c_str()) == 0;
  if (held.kind == FaultKind::kCorrupt) return was_there ? held.worker + " sent nothing that could be corrupted" : "";
  return held.worker + (held.kind == FaultKind::kCut ? " is connected again" : " is as quick as it was");
}

std::vector<std::string> Faults::let_go_due() {
  std::vector<std::string> said;
  std::erase_if(held_, [&](const Held& held) {
    const bool is_sent = held.kind == FaultKind::kCorrupt && ::access(held.file.c_str(), F_OK) != 0;
    if (Clock::now() < held.until && !is_sent) return false;
    if (std::string text = let_go(held); !text.empty()) said.push_back(std::move(text));
    return true;
  });
  return said;
}

std::vector<std::string> Faults::let_go_all() {
  for (Held& held : held_) held.until = Clock::time_point::min();
  return let_go_due();
}

}  // namespace holdfast::ops

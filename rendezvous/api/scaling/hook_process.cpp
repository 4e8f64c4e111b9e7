#include "rendezvous/api/scaling/hook_process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <optional>

#include "rendezvous/text/errno_text.h"
#include "rendezvous/text/text_bounds.h"

namespace holdfast::rendezvous {
namespace {

using std::chrono::steady_clock;

constexpr int kLookEveryMs = 50;
constexpr size_t kKeptBytes = 8192;  // of what it says, the newest
constexpr size_t kLineBytesMax = 500;

// A descriptor that is closed at the end.
class Owned {
 public:
  explicit Owned(int fd) : fd_(fd) {}
  ~Owned() { reset(); }
  Owned(const Owned&) = delete;
  int get() const { return fd_; }
  void reset() {
    if (fd_ >= 0) close(fd_);
    fd_ = -1;
  }

 private:
  int fd_;
};

// The text as a file in memory: a program need not read it, and nobody waits for it to.
int file_with(const std::string& text) {
  const int fd = memfd_create("scale_hook", MFD_CLOEXEC);
  if (fd < 0) return fd;
  for (size_t done = 0; done < text.size();) {
    const ssize_t written = write(fd, text.data() + done, text.size() - done);
    if (written <= 0) break;
    done += static_cast<size_t>(written);
  }
  lseek(fd, 0, SEEK_SET);
  return fd;
}

// 0, or an errno.
int start(const std::string& program, int input, int output, pid_t& pid) {
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_adddup2(&files, input, STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&files, output, STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&files, output, STDERR_FILENO);
  posix_spawn_file_actions_addclosefrom_np(&files, STDERR_FILENO + 1);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t none, usual;
  sigemptyset(&none);
  sigfillset(&usual);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setsigdefault(&attributes, &usual);
  posix_spawnattr_setpgroup(&attributes, 0);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);
  std::string name = program;
  std::array<char*, 2> arguments{name.data(), nullptr};
  const int error = posix_spawn(&pid, program.c_str(), &files, &attributes, arguments.data(), environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&files);
  return error;
}

void take(int output, std::string& said) {
  std::array<char, 4096> piece{};
  for (ssize_t length = 0; (length = read(output, piece.data(), piece.size())) > 0;)
    said.append(piece.data(), static_cast<size_t>(length));
  if (said.size() > kKeptBytes) said.erase(0, said.size() - kKeptBytes);
}

std::string last_line_of(std::string said) {
  while (!said.empty() && (said.back() == '\n' || said.back() == '\r')) said.pop_back();
  return shortened(said.substr(said.rfind('\n') + 1), kLineBytesMax);
}

std::string end_in_words(int status) {
  if (WIFSIGNALED(status)) return fmt::format("was killed by signal {}", WTERMSIG(status));
  return WEXITSTATUS(status) == 0 ? "" : fmt::format("exited with status {}", WEXITSTATUS(status));
}

}  // namespace

HookOutcome run_hook(const std::string& program, const std::string& input, std::chrono::milliseconds patience,
                     const std::atomic<bool>& cancelled) {
  const Owned in(file_with(input));
  int ends[2];
  if (in.get() < 0 || pipe2(ends, O_CLOEXEC) != 0) return {"could not be given its input: " + describe_errno(errno), ""};
  const Owned out(ends[0]);
  Owned theirs(ends[1]);
  fcntl(out.get(), F_SETFL, O_NONBLOCK);
  pid_t pid = -1;
  if (const int error = start(program, in.get(), theirs.get(), pid); error != 0)
    return {"could not be started: " + describe_errno(error), ""};
  theirs.reset();
  const auto deadline = steady_clock::now() + patience;
  std::string said;
  int status = 0;
  bool killed = false;
  while (waitpid(pid, &status, WNOHANG) == 0) {
    pollfd readable{out.get(), POLLIN, 0};
    poll(&readable, 1, kLookEveryMs);
    if ((readable.revents & POLLHUP) != 0) poll(nullptr, 0, kLookEveryMs);  // it has closed them and goes on
    take(out.get(), said);
    if (killed || (steady_clock::now() < deadline && !cancelled)) continue;
    killed = true;
    kill(-pid, SIGKILL);
  }
  take(out.get(), said);
  const std::string line = last_line_of(said);
  std::string failure = end_in_words(status);
  if (killed)
    failure = fmt::format("did not end within {} s and was killed",
                          std::chrono::duration_cast<std::chrono::seconds>(patience).count());
  if (!failure.empty() && !line.empty()) failure += ": " + line;
  return {failure, line};
}

}  // namespace holdfast::rendezvous

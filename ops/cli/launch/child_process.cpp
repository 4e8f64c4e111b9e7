#include "ops/cli/launch/child_process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <thread>

#include "ops/cli/command/command.h"
#include "rendezvous/text/errno_text.h"

namespace holdfast::ops {
namespace {

constexpr int kCannotStart = 127, kTooLong = 124;
constexpr size_t kLineBytesMost = 4096;
constexpr auto kBetweenWaits = std::chrono::milliseconds(20);

[[noreturn]] void fail(const char* what) {
  throw Failure{kJobFailed, fmt::format("{}: {}", what, rendezvous::describe_errno(errno))};
}

std::vector<char*> pointers_to(const std::vector<std::string>& words) {
  std::vector<char*> pointers;
  for (const std::string& word : words) pointers.push_back(const_cast<char*>(word.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

std::vector<std::string> environment_with(const std::vector<std::string>& changes) {
  std::vector<std::string> all = changes;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view given(*entry);
    const std::string_view name = given.substr(0, given.find('=') + 1);
    bool changed = false;
    for (const std::string& change : changes) changed |= std::string_view(change).starts_with(name);
    if (!changed) all.emplace_back(given);
  }
  return all;
}

// Between fork and exec, so with calls alone that a signal's handler may make.
[[noreturn]] void become(char* const* command, char* const* environment, int input, int output, pid_t parent) {
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (getppid() != parent) _exit(1);
  setpgid(0, 0);
  dup2(input, STDIN_FILENO);
  dup2(output, STDOUT_FILENO);
  dup2(output, STDERR_FILENO);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE}) std::signal(signal, SIG_DFL);
  execvpe(command[0], command, environment);
  const char* const why = strerrordesc_np(errno);
  for (const char* piece : {static_cast<const char*>(command[0]), ": ", why == nullptr ? "cannot be started" : why, "\n"}) {
    if (write(STDERR_FILENO, piece, strlen(piece)) < 0) break;
  }
  _exit(kCannotStart);
}

}  // namespace

ChildProcess::ChildProcess(const std::vector<std::string>& command, const std::string& input,
                           const std::vector<std::string>& environment) {
  const std::vector<std::string> whole_environment = environment_with(environment);
  const std::vector<char*> arguments = pointers_to(command), variables = pointers_to(whole_environment);
  int in[2], out[2];
  if (pipe2(in, O_CLOEXEC) != 0) fail("a pipe cannot be made");
  if (pipe2(out, O_CLOEXEC | O_NONBLOCK) != 0) {
    const int why = errno;
    close(in[0]);
    close(in[1]);
    errno = why;
    fail("a pipe cannot be made");
  }
  fcntl(out[1], F_SETFL, 0);  // the program's own end blocks, as programs expect
  const pid_t parent = getpid();
  pid_ = fork();
  if (pid_ == 0) become(arguments.data(), variables.data(), in[0], out[1], parent);
  close(out[1]);
  output_ = out[0];
  const int fork_error = errno;
  // The pipe takes it at once; and while this program holds the other end, too, nobody can have closed it.
  const ssize_t written = write(in[1], input.data(), input.size());
  close(in[0]);
  close(in[1]);
  if (pid_ < 0) {
    close(output_);
    errno = fork_error;
    fail("no further process can be started");
  }
  errno = fork_error;
  if (written != static_cast<ssize_t>(input.size())) fail("a program's input cannot be written");
}

ChildProcess::~ChildProcess() {
  if (pid_ > 0 && !status()) {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  if (output_ >= 0) close(output_);
}

std::vector<std::string> ChildProcess::take_lines() {
  std::array<char, 4096> piece{};
  for (ssize_t length = 0; (length = read(output_, piece.data(), piece.size())) > 0;)
    unread_.append(piece.data(), static_cast<size_t>(length));
  std::vector<std::string> lines;
  for (size_t end = 0; (end = unread_.find('\n')) != std::string::npos; unread_.erase(0, end + 1))
    lines.push_back(unread_.substr(0, std::min(end, kLineBytesMost)));
  if ((status_ && !unread_.empty()) || unread_.size() > kLineBytesMost) {
    lines.push_back(unread_.substr(0, kLineBytesMost));
    unread_.clear();
  }
  for (std::string& line : lines) {
    if (line.ends_with('\r')) line.pop_back();  // ssh's own lines
  }
  return lines;
}

std::optional<int> ChildProcess::status() {
  int status = 0;
  if (!status_ && waitpid(pid_, &status, WNOHANG) == pid_)
    status_ = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  return status_;
}

void ChildProcess::terminate() {
  if (!status()) kill(pid_, SIGTERM);
}

Ended run_to_end(const std::vector<std::string>& command, std::chrono::milliseconds patience, const std::string& input,
                 const std::vector<std::string>& environment) {
  ChildProcess process(command, input, environment);
  const auto deadline = std::chrono::steady_clock::now() + patience;
  Ended ended{kTooLong, ""};
  while (true) {
    const auto status = process.status();
    for (const std::string& line : process.take_lines()) ended.text += line + "\n";
    if (status) ended.status = *status;
    if (status || std::chrono::steady_clock::now() >= deadline) return ended;
    std::this_thread::sleep_for(kBetweenWaits);
  }
}

}  // namespace holdfast::ops

#include "worker/process/supervisor.h"

#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <spdlog/spdlog.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <optional>
#include <stdexcept>

#include "rendezvous/text/errno_text.h"
#include "rendezvous/text/random_hex.h"
#include "worker/link/exit_codes.h"
#include "worker/process/life_report.h"
#include "worker/process/stderr_tail.h"

// The supervisor has one thread, so that it may fork: functions that are not thread-safe are safe here.
// NOLINTBEGIN(concurrency-mt-unsafe)

namespace holdfast::worker {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr int kCannotStart = 127;

sigset_t watched_signals() {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : {SIGCHLD, SIGTERM, SIGINT}) sigaddset(&set, signal);
  return set;
}

void unblock_signals() {
  const sigset_t set = watched_signals();
  sigprocmask(SIG_UNBLOCK, &set, nullptr);
}

// Called between fork and exec, or in the reporting process: the kernel kills this process as soon as the supervisor ends.
void die_with(pid_t supervisor) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != supervisor) _exit(1);  // it died before the line above
}

[[noreturn]] void become(const SupervisorOptions& options, const std::string& incarnation, const LifeReport& report,
                         const StderrTail& stderr_tail, pid_t supervisor) {
  die_with(supervisor);
  report.hand_over();
  stderr_tail.hand_over();
  unblock_signals();
  setenv(kIncarnationVariable, incarnation.c_str(), 1);
  setenv(kSupervisorVariable, std::to_string(supervisor).c_str(), 1);
  std::vector<char*> arguments;
  for (const std::string& argument : options.command) arguments.push_back(const_cast<char*>(argument.c_str()));
  arguments.push_back(nullptr);
  execv(arguments[0], arguments.data());
  _exit(kCannotStart);
}

pid_t start_child(const SupervisorOptions& options, const std::string& incarnation, LifeReport& report,
                  StderrTail& stderr_tail) {
  const pid_t supervisor = getpid();
  const pid_t child = fork();
  if (child == 0) become(options, incarnation, report, stderr_tail, supervisor);
  report.born();
  stderr_tail.born();
  return child;
}

// Returns the process id of the reporter; -1 if it could not fork: the service then learns of the end when the lease ends.
pid_t report_from_a_process(const SupervisorOptions& options, const std::string& incarnation, const std::string& reason,
                            const std::vector<std::string>& last_lines) {
  const pid_t supervisor = getpid();
  const pid_t reporter = fork();
  if (reporter != 0) return reporter;
  die_with(supervisor);
  unblock_signals();
  signal(SIGALRM, SIG_DFL);
  alarm(static_cast<unsigned>((options.report_time.count() + 999) / 1000));
  options.report_lost(incarnation, reason, last_lines);
  _exit(0);
}

class Supervisor {
 public:
  explicit Supervisor(const SupervisorOptions& options) : options_(options), policy_(options.limits) {
    signal(SIGCHLD, SIG_DFL);  // the parent may have had it ignored, and then the kernel does not report a child's end
    const sigset_t set = watched_signals();
    sigprocmask(SIG_BLOCK, &set, nullptr);
    signals_ = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    if (signals_ < 0)
      throw std::runtime_error(fmt::format("the supervisor cannot wait for signals: {}", rendezvous::describe_errno(errno)));
  }
  ~Supervisor() { close(signals_); }
  Supervisor(const Supervisor&) = delete;

  int run() {
    while (true) {
      const auto status = live_once();
      if (status) {
        if (const auto final = judge(*status)) return *final;
      }
      const auto life = std::chrono::duration_cast<milliseconds>(steady_clock::now() - born_);
      if (!pause(policy_.after(life))) return static_cast<int>(ExitCode::kDone);
    }
  }

 private:
  // One life, from its start to its end. Returns the status of waitpid; nothing when the process could not be started.
  std::optional<int> live_once() {
    incarnation_ = new_incarnation();
    born_ = steady_clock::now();
    report_.emplace();
    stderr_tail_.emplace();
    child_ = start_child(options_, incarnation_, *report_, *stderr_tail_);
    if (child_ < 0) {
      spdlog::error("cannot start the training process, it is tried again: fork: {}", rendezvous::describe_errno(errno));
      return std::nullopt;
    }
    spdlog::debug("training process {} started, incarnation {}", child_, incarnation_);
    while (true) {
      std::array<pollfd, 2> awaited{pollfd{signals_, POLLIN, 0}, pollfd{stderr_tail_->ears(), POLLIN, 0}};  // -1 is passed over
      poll(awaited.data(), awaited.size(), -1);
      stderr_tail_->pass_on();
      take_signals();
      int status = 0;
      for (pid_t ended = 0; (ended = waitpid(-1, &status, WNOHANG)) > 0;) {
        if (ended == child_) return status;  // any other child was a reporter
      }
    }
  }

  void take_signals() {
    for (signalfd_siginfo info{}; read(signals_, &info, sizeof info) == sizeof info;) {
      if (info.ssi_signo == SIGTERM || info.ssi_signo == SIGINT) pass_on();
    }
  }

  void pass_on() {
    spdlog::info(told_to_end_ ? "told again to end: the training process is killed"
                              : "told to end: the training process finishes its step");
    kill(child_, told_to_end_ ? SIGKILL : SIGTERM);
    told_to_end_ = true;
  }

  // The program's exit status, when this life was the last.
  std::optional<int> judge(int status) {
    const std::vector<std::string> last_lines = stderr_tail_->lines();
    const int code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    if (code == static_cast<int>(ExitCode::kDone) || code == static_cast<int>(ExitCode::kConfiguration)) return code;
    const bool ended_as_told = told_to_end_ && WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM;
    if (ended_as_told) return static_cast<int>(ExitCode::kDone);  // it had not yet begun to listen
    const Told told = report_->read();
    if (!told.gpu.empty()) setenv(kGpuVariable, told.gpu.c_str(), 1);  // for the lives to come
    if (told.term > 0) setenv(kTermVariable, std::to_string(told.term).c_str(), 1);
    const std::string end = describe_end(status) + (told.reason.empty() ? "" : ": " + told.reason);
    const bool known = code == static_cast<int>(ExitCode::kNameTaken) || code == static_cast<int>(ExitCode::kFenced);
    reporter_ = known ? -1 : report_from_a_process(options_, incarnation_, end, last_lines);
    if (told_to_end_ || code == static_cast<int>(ExitCode::kNameTaken) || code == kCannotStart) {
      spdlog::error("the training process ended: {}", end);
      wait_for_report();
      return static_cast<int>(ExitCode::kFailed);
    }
    spdlog::warn("the training process ended: {}; it is started again", end);
    return std::nullopt;
  }

  // The reporter would die with this process; its alarm() bounds the wait.
  void wait_for_report() {
    if (reporter_ > 0) waitpid(reporter_, nullptr, 0);
    reporter_ = -1;
  }

  // For `duration`, and until the report has arrived. False: told to end meanwhile.
  bool pause(milliseconds duration) {
    if (duration.count() > 0) spdlog::warn("next start in {:.1f} s", static_cast<double>(duration.count()) / 1000);
    const auto begin = steady_clock::now();
    const sigset_t set = watched_signals();
    while (true) {
      for (pid_t ended = 0; (ended = waitpid(-1, nullptr, WNOHANG)) > 0;) {
        if (ended == reporter_) reporter_ = -1;
      }
      const auto until = begin + (reporter_ > 0 ? std::max(duration, options_.report_first) : duration);
      const auto left = std::max(until - steady_clock::now(), steady_clock::duration::zero());
      const auto nanoseconds = std::chrono::duration_cast<std::chrono::nanoseconds>(left).count();
      const timespec timeout{nanoseconds / 1'000'000'000, nanoseconds % 1'000'000'000};
      const int signal = sigtimedwait(&set, nullptr, &timeout);
      if (signal == SIGTERM || signal == SIGINT) {
        wait_for_report();
        return false;
      }
      if (signal < 0 && errno == EAGAIN) return true;
    }
  }

  const SupervisorOptions& options_;
  RestartPolicy policy_;
  std::string incarnation_;
  std::optional<LifeReport> report_;
  std::optional<StderrTail> stderr_tail_;
  int signals_ = -1;  // a file to read signals from, so that poll() can wait for them and for the child's stderr
  pid_t child_ = -1, reporter_ = -1;  // the reporter of the newest life that ended, until it is known to have ended
  steady_clock::time_point born_;
  bool told_to_end_ = false;
};

}  // namespace

int supervise(const SupervisorOptions& options) {
  return Supervisor(options).run();
}

std::string new_incarnation() {
  return rendezvous::random_hex(16);
}

std::string describe_end(int wait_status) {
  if (WIFSIGNALED(wait_status)) {
    const int signal = WTERMSIG(wait_status);
    const char* name = sigabbrev_np(signal);
    const char* why =
        signal == SIGBUS ? ": a file that it reads, such as the training data, became shorter, or its disk failed" : "";
    return fmt::format("killed by signal {} (SIG{}){}", signal, name == nullptr ? "?" : name, why);
  }
  switch (static_cast<ExitCode>(WEXITSTATUS(wait_status))) {
    case ExitCode::kFenced:
      return "fenced: it belonged to the past";
    case ExitCode::kNameTaken:
      return "another worker has its name";
    default:
      return fmt::format("exited with status {}", WEXITSTATUS(wait_status));
  }
}

}  // namespace holdfast::worker

// NOLINTEND(concurrency-mt-unsafe)

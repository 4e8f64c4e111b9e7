#include "ops/cli/terminal/signal_watch.h"

#include <pthread.h>
#include <unistd.h>

#include <cstdio>

namespace holdfast::ops {
namespace {

bool is_ignored(int signal) {
  struct sigaction action {};
  return sigaction(signal, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
}

// On this thread an exception would end the process, and leave a terminal as it is.
template <typename Call>
void call_safely(const Call& call) {
  try {
    call();
  } catch (...) {
    // the picture is incomplete, no more
  }
}

// As SIGTSTP does by itself: by its default action, which the system leaves out where nobody could continue the process.
void stop_this_process() {
  sigset_t stop{};
  sigemptyset(&stop);
  sigaddset(&stop, SIGTSTP);
  pthread_sigmask(SIG_UNBLOCK, &stop, nullptr);
  raise(SIGTSTP);
  pthread_sigmask(SIG_BLOCK, &stop, nullptr);
}

}  // namespace

SignalWatch::SignalWatch(std::function<int(int)> on_end, std::function<void()> on_resize, std::function<void()> on_stop)
    : on_end_(std::move(on_end)), on_resize_(std::move(on_resize)), on_stop_(std::move(on_stop)) {
  sigemptyset(&watched_);
  sigaddset(&watched_, SIGWINCH);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP, SIGCONT}) {
    // sigwait takes a blocked signal even where it is ignored.
    if (!is_ignored(signal)) sigaddset(&watched_, signal);
  }
  pthread_sigmask(SIG_BLOCK, &watched_, &before_);
  thread_ = std::thread([this] { watch(); });
}

SignalWatch::~SignalWatch() {
  over_ = true;
  pthread_kill(thread_.native_handle(), SIGWINCH);  // wakes it
  thread_.join();
  pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

void SignalWatch::watch() {
  for (int signal = 0; !over_;) {
    if (sigwait(&watched_, &signal) != 0 || over_) continue;
    if (signal == SIGWINCH || signal == SIGCONT) {
      call_safely(on_resize_);
    } else if (signal == SIGTSTP) {
      call_safely(on_stop_);
      stop_this_process();
      call_safely(on_resize_);
    } else {
      int exit_code = 128 + signal;
      call_safely([&] { exit_code = on_end_(signal); });
      std::fflush(nullptr);
      _exit(exit_code);  // the other threads may be in the middle of anything
    }
  }
}

}  // namespace holdfast::ops

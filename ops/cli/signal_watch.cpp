#include "ops/cli/signal_watch.h"

#include <pthread.h>
#include <unistd.h>

#include <cstdio>

namespace holdfast::ops {

SignalWatch::SignalWatch(std::function<int(int)> on_end, std::function<void()> on_resize)
    : on_end_(std::move(on_end)), on_resize_(std::move(on_resize)) {
  sigemptyset(&watched_);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGWINCH}) sigaddset(&watched_, signal);
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
    if (signal == SIGWINCH) {
      on_resize_();
      continue;
    }
    const int exit_code = on_end_(signal);
    std::fflush(nullptr);
    _exit(exit_code);  // the other threads may be in the middle of anything
  }
}

}  // namespace holdfast::ops

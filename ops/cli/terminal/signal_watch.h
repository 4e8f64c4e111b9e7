// Ctrl-C and a resized terminal, seen by a thread of their own, so that they take effect at once whatever the program waits
// for.
//
// While a SignalWatch lives, SIGINT, SIGTERM, SIGHUP and SIGQUIT call `on_end` and end the process with the exit code that it
// returns; SIGTSTP (Ctrl-Z) calls `on_stop` and stops it; SIGWINCH, and SIGCONT when it goes on, call `on_resize`. Signals that
// the process was started to ignore, as by nohup, stay ignored. All run on the watch's thread, and what they throw is dropped.
// Make it before other threads: they inherit that these signals are not delivered to them.
#pragma once

#include <atomic>
#include <csignal>
#include <functional>
#include <thread>

namespace holdfast::ops {

class SignalWatch {
 public:
  SignalWatch(
      std::function<int(int signal)> on_end, std::function<void()> on_resize, std::function<void()> on_stop = [] {});
  ~SignalWatch();
  SignalWatch(const SignalWatch&) = delete;

 private:
  void watch();
  const std::function<int(int)> on_end_;
  const std::function<void()> on_resize_, on_stop_;
  sigset_t watched_{}, before_{};
  std::atomic<bool> over_ = false;
  std::thread thread_;
};

}  // namespace holdfast::ops

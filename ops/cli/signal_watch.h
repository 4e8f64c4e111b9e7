// Ctrl-C and a resized terminal, seen by a thread of their own, so that they take effect at once whatever the program waits
// for.
//
// While a SignalWatch lives, SIGINT, SIGTERM and SIGHUP call `on_end` and end the process with the exit code that it returns;
// SIGWINCH calls `on_resize`. Both run on the watch's thread. Make it before other threads: they inherit that these signals are
// not delivered to them.
#pragma once

#include <atomic>
#include <csignal>
#include <functional>
#include <thread>

namespace holdfast::ops {

class SignalWatch {
 public:
  SignalWatch(std::function<int(int signal)> on_end, std::function<void()> on_resize);
  ~SignalWatch();
  SignalWatch(const SignalWatch&) = delete;

 private:
  void watch();
  const std::function<int(int)> on_end_;
  const std::function<void()> on_resize_;
  sigset_t watched_{}, before_{};
  std::atomic<bool> over_ = false;
  std::thread thread_;
};

}  // namespace holdfast::ops

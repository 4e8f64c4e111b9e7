// One thread that waits for many sockets and moments at once: epoll and a queue of what is to be done when.
//
// Promises: what is ready is all taken in before anything that was put off is done, so that a time of arrival is that of the
// bytes and not of the work on those before.
// Thread: one.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>

namespace holdfast::bench {

using Clock = std::chrono::steady_clock;
using Moment = Clock::time_point;

class EventLoop {
 public:
  using OnReady = std::function<void(uint32_t events)>;  // EPOLLIN | EPOLLOUT …

  EventLoop();  // throws std::system_error
  ~EventLoop();
  EventLoop(const EventLoop&) = delete;

  void watch(int file, uint32_t events, OnReady on_ready);
  void change(int file, uint32_t events);
  void forget(int file);  // before it is closed
  void at(Moment when, std::function<void()> what) { due_.emplace(when, std::move(what)); }
  void soon(std::function<void()> what) { at(Moment{}, std::move(what)); }

  // Until `done()` or `end`. Whether it was done.
  bool run(Moment end, const std::function<bool()>& done);
  void run(Moment end) {
    run(end, [] { return false; });
  }

 private:
  void take_in(int wait_ms);
  void do_what_is_due();

  int epoll_;
  std::map<int, std::shared_ptr<OnReady>> watched_;
  std::multimap<Moment, std::function<void()>> due_;
};

}  // namespace holdfast::bench

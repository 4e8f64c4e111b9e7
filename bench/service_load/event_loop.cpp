#include "bench/service_load/event_loop.h"

#include <sys/epoll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <system_error>
#include <utility>

namespace holdfast::bench {
namespace {

void control(int epoll, int operation, int file, uint32_t events) {
  epoll_event event{};
  event.events = events;
  event.data.fd = file;
  if (epoll_ctl(epoll, operation, file, &event) != 0) throw std::system_error(errno, std::system_category(), "epoll_ctl");
}

}  // namespace

EventLoop::EventLoop() : epoll_(epoll_create1(EPOLL_CLOEXEC)) {
  if (epoll_ < 0) throw std::system_error(errno, std::system_category(), "epoll_create1");
}

EventLoop::~EventLoop() {
  close(epoll_);
}

void EventLoop::watch(int file, uint32_t events, OnReady on_ready) {
  control(epoll_, EPOLL_CTL_ADD, file, events);
  watched_[file] = std::make_shared<OnReady>(std::move(on_ready));
}

void EventLoop::change(int file, uint32_t events) {
  control(epoll_, EPOLL_CTL_MOD, file, events);
}

void EventLoop::forget(int file) {
  control(epoll_, EPOLL_CTL_DEL, file, 0);
  watched_.erase(file);
}

void EventLoop::take_in(int wait_ms) {
  std::array<epoll_event, 4096> events;
  const int ready = epoll_wait(epoll_, events.data(), static_cast<int>(events.size()), wait_ms);
  for (int i = 0; i < ready; ++i) {
    const auto found = watched_.find(events[static_cast<size_t>(i)].data.fd);
    if (found == watched_.end()) continue;  // closed by one before it
    const auto on_ready = found->second;    // it may forget itself
    (*on_ready)(events[static_cast<size_t>(i)].events);
  }
}

void EventLoop::do_what_is_due() {
  const Moment now = Clock::now();
  while (!due_.empty() && due_.begin()->first <= now) {
    const auto what = std::move(due_.begin()->second);
    due_.erase(due_.begin());
    what();
  }
}

bool EventLoop::run(Moment end, const std::function<bool()>& done) {
  while (!done()) {
    const Moment now = Clock::now();
    if (now >= end) return false;
    const Moment next = due_.empty() ? end : std::min(end, due_.begin()->first);
    const auto wait = std::chrono::ceil<std::chrono::milliseconds>(next - now);
    take_in(static_cast<int>(std::clamp<int64_t>(wait.count(), 0, 1000)));
    do_what_is_due();
  }
  return true;
}

}  // namespace holdfast::bench

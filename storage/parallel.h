// Numbered pieces of work over a few threads: at once, or in the background of what else the machine does.
#pragma once

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <exception>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>
#include <vector>

#include "storage/object_store.h"

namespace holdfast::storage {

// Pieces [0, count), taken in order by whoever asks. After a failure no further piece is begun; the failure that counts is
// that of the lowest piece, and an exception becomes one.
class Pieces {
 public:
  explicit Pieces(size_t count) : count_(count) {}

  // Takes one and does work(index, thread) -> Result<void>; false when none is left.
  template <typename Work>
  bool do_one(const Work& work, int thread) {
    const size_t index = next_++;
    if (index >= count_) return false;
    try {
      if (Result<void> done = work(index, thread); !done) fail(index, std::move(done.error()));
    } catch (const std::exception& e) {
      fail(index, {Error::Code::kUnavailable, std::string("out of memory or of another resource: ") + e.what()});
    }
    return true;
  }
  // Once nobody works on them any more.
  Result<void> result() {
    if (failure_) return tl::unexpected(std::move(*failure_));
    return {};
  }

 private:
  void fail(size_t index, Error error) {
    const std::scoped_lock lock(mutex_);
    if (!failure_ || index < failure_index_) {
      failure_ = std::move(error);
      failure_index_ = index;
    }
    next_ = count_;
  }

  const size_t count_;
  std::atomic<size_t> next_ = 0;
  std::mutex mutex_;
  std::optional<Error> failure_;
  size_t failure_index_ = 0;
};

// Up to `most` threads that do body(thread), numbered from `first`; fewer where no more are to be had.
template <typename Body>
std::vector<std::jthread> start_threads(int first, int most, const Body& body) {
  std::vector<std::jthread> threads;
  try {
    for (int thread = first; thread < first + most; ++thread) threads.emplace_back(body, thread);
  } catch (const std::system_error&) {
    // The threads that began do the work.
  }
  return threads;
}

// All pieces, by `threads` threads of which the caller is number 0.
template <typename Work>
Result<void> in_parallel(size_t count, int threads, const Work& work) {
  Pieces pieces(count);
  const auto run = [&](int thread) {
    while (pieces.do_one(work, thread)) continue;
  };
  auto helpers = start_threads(1, static_cast<int>(std::min(static_cast<size_t>(threads), count)) - 1, run);
  run(0);
  helpers.clear();
  return pieces.result();
}

// All pieces, by `threads` threads that run when the processors have nothing else to do (SCHED_IDLE), numbered from 1. So that
// there is an end to it where they always have, the caller, number 0, does a piece now and then: when it has rested for
// `patience`, and after that when it has rested twenty times as long as the last one took.
// Why not low priority alone: measured (Linux 6.18), nice 10 to 15 made the steps of a training 30 to 80 % slower meanwhile,
// for a thread that wakes waits until the one it displaces has had its slice; SCHED_IDLE is displaced at once, and made them 6
// % slower, in two or three times the time.
template <typename Work>
Result<void> in_background(size_t count, int threads, const Work& work,
                           std::chrono::duration<double> patience = std::chrono::seconds(2)) {
  Pieces pieces(count);
  std::mutex mutex;
  std::condition_variable changed;
  int ended = 0;
  auto helpers = start_threads(1, threads, [&](int thread) {
    const sched_param none{};
    static_cast<void>(::sched_setscheduler(0, SCHED_IDLE, &none));  // of this thread; refused or not, it works
    while (pieces.do_one(work, thread)) continue;
    const std::scoped_lock lock(mutex);
    ++ended;
    changed.notify_all();
  });
  const auto all_ended = [&] { return ended == static_cast<int>(helpers.size()); };
  const bool alone = helpers.empty();
  std::unique_lock lock(mutex);
  for (bool left = true; left && (alone || !changed.wait_for(lock, patience, all_ended));) {
    lock.unlock();
    const auto start = std::chrono::steady_clock::now();
    left = pieces.do_one(work, 0);
    patience = 20 * (std::chrono::steady_clock::now() - start);
    lock.lock();
  }
  lock.unlock();
  helpers.clear();
  return pieces.result();
}

}  // namespace holdfast::storage

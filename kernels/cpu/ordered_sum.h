// The sum of parts that threads make side by side, added in the order of their numbers, whoever is first: so its bits are those
// of one thread. Fewer parts are in memory than there are: a part that has been added makes room for the next. No allocation.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>

namespace holdfast::kernels::cpu {

class OrderedSum {
 public:
  static constexpr int64_t kMostParts = 16;  // in memory

  // `parts`: memory for `count` parts (1 to kMostParts) of `size` floats.
  OrderedSum(float* parts, int64_t count, int64_t size) {
    for (int64_t i = 0; i < count; ++i) free_[free_count_++] = parts + i * size;
  }

  // Memory for the part of this number, counted from 0. Waits while all of it is taken by parts that are made, or wait for an
  // earlier one. The last of it is for the part whose turn it is: all that are taken otherwise may wait for that.
  float* begin(int64_t number) {
    std::unique_lock lock(mutex_);
    has_room_.wait(lock, [this, number] { return free_count_ > 1 || (free_count_ == 1 && number == next_); });
    return free_[--free_count_];
  }

  // Gives the part of this number back. `add(part, is_first)` is called for each part whose turn it is, by one
  // thread at a time.
  template <typename Add>
  void end(int64_t number, float* part, const Add& add) {
    std::unique_lock lock(mutex_);
    waiting_[waiting_count_++] = {number, part};
    while (!is_adding_) {
      float* const its = take_next();
      if (its == nullptr) return;
      const int64_t number_added = next_;
      is_adding_ = true;
      lock.unlock();
      add(its, number_added == 0);
      lock.lock();
      is_adding_ = false;
      ++next_;
      free_[free_count_++] = its;
      has_room_.notify_all();
    }
  }

 private:
  struct Part {
    int64_t number;
    float* memory;
  };

  // The part whose turn it is, which waits no longer. Null: it does not wait yet.
  float* take_next() {
    for (int64_t i = 0; i < waiting_count_; ++i) {
      if (waiting_[i].number != next_) continue;
      float* const its = waiting_[i].memory;
      waiting_[i] = waiting_[--waiting_count_];
      return its;
    }
    return nullptr;
  }

  std::mutex mutex_;
  std::condition_variable has_room_;
  // Each part is in one of the two, or in a thread's hands: together they have at most `count`.
  float* free_[kMostParts] = {};
  Part waiting_[kMostParts] = {};
  int64_t free_count_ = 0, waiting_count_ = 0;
  int64_t next_ = 0;  // the number of the part whose turn it is
  bool is_adding_ = false;
};

}  // namespace holdfast::kernels::cpu

// The sum of parts that threads make side by side, added in the order of their numbers, whoever is first: so its bits are those
// of one thread. Fewer parts are in memory than there are: a part that has been added makes room for the next.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <map>
#include <mutex>
#include <vector>

namespace holdfast::kernels::cpu {

class OrderedSum {
 public:
  // `parts`: memory for `count` parts (at least 1) of `size` floats.
  OrderedSum(float* parts, int64_t count, int64_t size) {
    for (int64_t i = 0; i < count; ++i) free_.push_back(parts + i * size);
  }

  // Memory for the part of this number, counted from 0. Waits while all of it is taken by parts that are made, or wait for an
  // earlier one. The last of it is for the part whose turn it is: all that are taken otherwise may wait for that.
  float* begin(int64_t number) {
    std::unique_lock lock(mutex_);
    has_room_.wait(lock, [this, number] { return free_.size() > 1 || (!free_.empty() && number == next_); });
    float* const part = free_.back();
    free_.pop_back();
    return part;
  }

  // Gives the part of this number back. `add(part, is_first)` is called for each part whose turn it is, by one
  // thread at a time.
  template <typename Add>
  void end(int64_t number, float* part, const Add& add) {
    std::unique_lock lock(mutex_);
    waiting_.emplace(number, part);
    while (!is_adding_ && !waiting_.empty() && waiting_.begin()->first == next_) {
      float* const its = waiting_.begin()->second;
      waiting_.erase(waiting_.begin());
      const int64_t number_added = next_;
      is_adding_ = true;
      lock.unlock();
      add(its, number_added == 0);
      lock.lock();
      is_adding_ = false;
      ++next_;
      free_.push_back(its);
      has_room_.notify_all();
    }
  }

 private:
  std::mutex mutex_;
  std::condition_variable has_room_;
  std::vector<float*> free_;
  std::map<int64_t, float*> waiting_;  // by number
  int64_t next_ = 0;                   // the number of the part whose turn it is
  bool is_adding_ = false;
};

}  // namespace holdfast::kernels::cpu

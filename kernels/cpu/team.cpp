// The team of team.h.
#include "kernels/cpu/team.h"

#include <immintrin.h>

#include <algorithm>
#include <stdexcept>
#include <string>

namespace holdfast::kernels::cpu {
namespace {

constexpr uint64_t kJob = uint64_t{1} << 32;
constexpr uint64_t kTask = kJob - 1;  // mask of the lower half

// For how long a thread looks again before it sleeps, which costs it and who wakes it several microseconds each.
class Looks {
 public:
  // Returns when `value` is no longer `seen`.
  template <typename Number>
  void wait(const std::atomic<Number>& value, Number seen) {
    for (int look = 0; look < looks_; ++look) {
      if (value.load(std::memory_order_relaxed) != seen) {
        looks_ = std::min(2 * looks_, kMost);
        return;
      }
      _mm_pause();
    }
    looks_ = std::max(looks_ / 2, kLeast);
    value.wait(seen);
  }

 private:
  static constexpr int kMost = 2048, kLeast = 64;  // of 3 to 50 ns, by the processor
  int looks_ = kMost;
};

}  // namespace

Team::Team(int threads) {
  try {
    helpers_.reserve(static_cast<size_t>(threads - 1));
    for (int thread = 1; thread < threads; ++thread) helpers_.emplace_back([this, thread] { help(thread); });
  } catch (const std::exception& e) {
    const size_t started = helpers_.size();
    dismiss();
    throw std::runtime_error("the cpu device was given " + std::to_string(threads) + " threads, and only " +
                             std::to_string(started + 1) + " could be had: " + e.what() +
                             ". Give it fewer (--threads), or raise the limit of processes or memory that it runs under");
  }
}

Team::~Team() {
  dismiss();
}

void Team::dismiss() {
  stop_.store(true);
  claim_.fetch_add(kJob);
  claim_.notify_all();
  for (std::thread& helper : helpers_) helper.join();
  helpers_.clear();
}

void Team::run(int64_t tasks, Call call, const void* body) {
  if (helpers_.empty() || tasks <= 1) {
    for (int64_t task = 0; task < tasks; ++task) call(body, task, 0);
    return;
  }
  const uint64_t job = claim_.load() / kJob;
  claim_.store(job * kJob + kTask);  // closed: no task has this number, and what a late helper has seen is no longer so
  tasks_.store(static_cast<uint32_t>(tasks));
  call_.store(call);
  body_.store(body);
  finished_.store(0);
  claim_.store((job + 1) * kJob);
  claim_.notify_all();
  take_tasks(0);
  thread_local Looks looks;
  for (uint32_t done = finished_.load(); done != tasks; done = finished_.load()) looks.wait(finished_, done);
}

void Team::help(int thread) {
  for (Looks looks;;) {
    // stop_ is looked at after claim_: the destructor sets it first, so whoever saw its claim sees it too and does not wait.
    const uint64_t seen = take_tasks(thread);
    if (stop_.load()) return;
    looks.wait(claim_, seen);
  }
}

uint64_t Team::take_tasks(int thread) noexcept {
  for (uint64_t seen = claim_.load();;) {
    const uint32_t tasks = tasks_.load();
    const Call call = call_.load();
    const void* body = body_.load();
    const uint64_t task = seen & kTask;
    if (task >= tasks) return seen;
    if (!claim_.compare_exchange_weak(seen, seen + 1)) continue;
    call(body, static_cast<int64_t>(task), thread);
    if (finished_.fetch_add(1) + 1 == tasks) finished_.notify_one();
    seen = claim_.load();
  }
}

}  // namespace holdfast::kernels::cpu

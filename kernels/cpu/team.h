// The threads of one cpu op set. An op is cut into tasks whose number and borders depend on shapes only (cut.h); every task
// runs in one thread and writes what no other task writes. Which thread takes which task is then of no consequence for bits.
//
// Promises: for_each returns when every task is done, and what tasks wrote is visible. It waits for tasks, not for threads:
// a helper that the system has not woken yet holds nobody up, which matters where workers share cores. Threads that wait
// look again for up to 0.1 ms, and then sleep; where that is in vain, as beside other programs, for shorter and shorter.
// (OpenMP's own teams do neither: measured with a busy machine, they burnt as much time in barriers as in work.)
// Refuses: tasks that throw (std::terminate), and calls from two threads at once or from within a task (a precondition).
#pragma once

#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

namespace holdfast::kernels::cpu {

class Team {
 public:
  // The caller of for_each is one of the `threads` (at least 1). Throws std::runtime_error, with the numbers in words for the
  // user, when not all can be started; those that were have ended then.
  explicit Team(int threads);
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;
  ~Team();

  int threads() const { return static_cast<int>(helpers_.size()) + 1; }

  // body(task, thread) for every task below `tasks` (at most 2^31); 0 <= thread < threads(), each in one task at a time.
  template <typename Body>
  void for_each(int64_t tasks, const Body& body) {
    run(
        tasks, [](const void* of, int64_t task, int thread) { (*static_cast<const Body*>(of))(task, thread); }, &body);
  }

 private:
  using Call = void (*)(const void* body, int64_t task, int thread);
  void run(int64_t tasks, Call call, const void* body);
  void help(int thread);
  void dismiss();  // ends the helpers
  // Takes tasks of the job that `claim_` names until none is left; returns claim_ as it was then.
  uint64_t take_tasks(int thread) noexcept;

  // Job number in the upper half, next task to take in the lower. Only a compare-and-exchange from a value seen takes a
  // task, and the job's fields are written only while no task can be taken: so whoever read them between seeing and taking
  // has read those of the job.
  alignas(64) std::atomic<uint64_t> claim_{0};
  std::atomic<uint32_t> tasks_{0};
  std::atomic<Call> call_{nullptr};
  std::atomic<const void*> body_{nullptr};
  alignas(64) std::atomic<uint32_t> finished_{0};  // tasks of the current job that are done
  std::atomic<bool> stop_{false};
  std::vector<std::thread> helpers_;
};

}  // namespace holdfast::kernels::cpu

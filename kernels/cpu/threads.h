// How the cpu op set uses threads: an op is cut into tasks whose number and borders depend on shapes only, every task runs
// in one thread and writes what no other task writes. Which thread takes which task is then of no consequence for the bits.
#pragma once

#include <omp.h>

#include <algorithm>
#include <cstdint>

namespace holdfast::kernels::cpu {

// A range cut into `count` pieces of `piece` elements, the last one shorter.
struct Cut {
  int64_t extent, piece, count;

  // Pieces as even as multiples of `unit` allow, none longer than `most` (a multiple of `unit`).
  static Cut even(int64_t extent, int64_t most, int64_t unit) {
    const int64_t wanted = (extent + most - 1) / most;
    const int64_t share = (extent + wanted - 1) / wanted;
    return of((share + unit - 1) / unit * unit, extent);
  }
  static Cut of(int64_t piece, int64_t extent) { return {extent, piece, (extent + piece - 1) / piece}; }

  int64_t begin(int64_t i) const { return i * piece; }
  int64_t size(int64_t i) const { return std::min(piece, extent - i * piece); }
};

// Runs body(task, thread) for every task; thread is below `threads`. oneDNN called from a task stays in the task's thread:
// it asks OpenMP how many threads it may have, and the answer is one, also where the team itself is one thread.
// `body` does not throw.
template <typename Body>
void for_each_task(int threads, int64_t tasks, Body&& body) {
  const int team = static_cast<int>(std::min<int64_t>(threads, tasks));
  if (team < 1) return;
#pragma omp parallel num_threads(team)
  {
    omp_set_num_threads(1);  // of this thread inside this region; gone when it ends
    const int thread = omp_get_thread_num();
#pragma omp for schedule(dynamic, 1)
    for (int64_t task = 0; task < tasks; ++task) body(task, thread);
  }
}

}  // namespace holdfast::kernels::cpu

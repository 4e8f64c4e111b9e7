// Numbered pieces of work over a few threads, the caller's among them.
#pragma once

#include <atomic>
#include <cstddef>
#include <exception>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>
#include <vector>

#include "storage/object_store.h"

namespace holdfast::storage {

// Calls work(index, thread) -> Result<void> for every index in [0, count), taken in order, with thread in [0, threads).
// After a failure no further index is begun. Returns the failure of the lowest index; an exception becomes one.
template <typename Work>
Result<void> in_parallel(size_t count, int threads, const Work& work) {
  std::atomic<size_t> next = 0;
  std::mutex mutex;
  std::optional<Error> failure;
  size_t failure_index = 0;
  const auto fail = [&](size_t index, Error error) {
    const std::scoped_lock lock(mutex);
    if (!failure || index < failure_index) {
      failure = std::move(error);
      failure_index = index;
    }
    next = count;
  };
  const auto run = [&](int thread) {
    for (size_t index = next++; index < count; index = next++) {
      try {
        if (Result<void> done = work(index, thread); !done) fail(index, std::move(done.error()));
      } catch (const std::exception& e) {
        fail(index, {Error::Code::kUnavailable, std::string("out of memory or of another resource: ") + e.what()});
      }
    }
  };
  std::vector<std::jthread> helpers;
  try {
    for (int thread = 1; thread < threads && static_cast<size_t>(thread) < count; ++thread) helpers.emplace_back(run, thread);
  } catch (const std::system_error&) {
    // No more threads are to be had: those there are do the work.
  }
  run(0);
  helpers.clear();
  if (failure) return tl::unexpected(std::move(*failure));
  return {};
}

}  // namespace holdfast::storage

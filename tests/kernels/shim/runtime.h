// Shared by the sources of the played runtime: its lock, what its calls have in common, and what a capture forbids.
//
// Thread: any.
#pragma once

#include <hip/hip_runtime.h>

#include <cstdint>
#include <mutex>

namespace shim {

// One call of the runtime, which holds the lock: also while kernels run. `fails`: the call is to do nothing and to return the
// error that error_to_return() has.
struct Call {
  Call();
  std::lock_guard<std::recursive_mutex> lock;
  bool fails = false;
};
std::recursive_mutex& runtime_lock();

// Keeps it for hipGetLastError, and returns it.
hipError_t told(hipError_t error);
// Of a call that fails because a test wants it.
hipError_t error_to_return();

// For calls that a capture does not permit (hipStreamCaptureModeThreadLocal: to the thread that captures; Global: to all).
// True: it is forbidden, and the capture is invalid from now on, as with the real runtime.
bool is_forbidden_by_capture();

// A random number below this, from the seed of shuffle_with.
uint64_t random_below(uint64_t limit);
void shuffle_streams_with(uint64_t seed);

}  // namespace shim

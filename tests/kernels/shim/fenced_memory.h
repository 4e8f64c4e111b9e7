// Device memory that only kernels and copies can touch: if host code reads or writes it, SIGSEGV ends the process, as with a
// GPU's memory. It is for tests of the code around the kernels. Tests of the kernels take memory from the heap, whose bounds
// sanitizers watch.
//
// Thread: the holder of the runtime's lock. While one thread's kernels run, the fence is open for all threads.
#pragma once

#include <cstddef>

namespace shim {

class FencedMemory {
 public:
  static bool is_wanted();  // HOLDFAST_SHIM_FENCE is set
  static void* allocate(size_t bytes);
  static void release(void* memory, size_t bytes);  // `bytes` as for allocate

  // The fence is open while such an object exists.
  class Opened {
   public:
    Opened();
    ~Opened();
    Opened(const Opened&) = delete;
    Opened& operator=(const Opened&) = delete;
  };
};

}  // namespace shim

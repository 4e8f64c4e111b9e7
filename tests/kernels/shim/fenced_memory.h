// Device memory that only kernels and copies can touch: a host that reads or writes it by itself is ended by SIGSEGV, as it
// would be with a GPU's. For tests of what is around the kernels; where kernels are tested, memory is from the heap, whose
// bounds sanitizers watch.
//
// Thread: whoever holds the runtime's lock. While one thread's kernels run the fence is open for all.
#pragma once

#include <cstddef>

namespace shim {

class FencedMemory {
 public:
  static bool is_wanted();  // HOLDFAST_SHIM_FENCE is set
  static void* allocate(size_t bytes);
  static void release(void* memory, size_t bytes);  // as many as were asked for

  // The fence is open while there is one.
  class Opened {
   public:
    Opened();
    ~Opened();
    Opened(const Opened&) = delete;
    Opened& operator=(const Opened&) = delete;
  };
};

}  // namespace shim

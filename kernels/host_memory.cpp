#include "kernels/host_memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>

namespace holdfast::kernels {

void* allocate_host(size_t bytes) noexcept {
  constexpr size_t kLine = 64;
  constexpr size_t kHugePage = size_t{2} << 20;
  const bool huge = bytes >= 2 * kHugePage;
  const size_t unit = huge ? kHugePage : kLine;
  void* const memory = std::aligned_alloc(unit, (std::max<size_t>(bytes, 1) + unit - 1) / unit * unit);
  if (huge && memory != nullptr) ::madvise(memory, bytes, MADV_HUGEPAGE);  // refusing it costs only speed
  return memory;
}

}  // namespace holdfast::kernels

// Memory of the host for tensors and what ops keep meanwhile. Thread: any.
#pragma once

#include <cstddef>

namespace holdfast::kernels {

// The memory, 64-byte aligned and at least a byte, is given back by std::free; null where there is none. From 4 MiB on it is in
// large pages, if the system has them: fewer page faults and misses of the TLB. Parts that are not touched of a large page are
// taken all the same.
void* allocate_host(size_t bytes) noexcept;

}  // namespace holdfast::kernels

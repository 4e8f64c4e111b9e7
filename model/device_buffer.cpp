#include "model/device_buffer.h"

#include <sys/mman.h>
#include <unistd.h>

#include <new>

namespace holdfast::model {
namespace {

// Small pages: a large one would be taken whole for a few bytes in it.
void* reserve(size_t bytes) {
  if (bytes == 0) return nullptr;
  void* const memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  ::madvise(memory, bytes, MADV_NOHUGEPAGE);
  return memory;
}

}  // namespace

DeviceBuffer::DeviceBuffer(kernels::DeviceOps& ops, size_t bytes, Memory memory)
    : ops_(&ops),
      kind_(memory),
      memory_(memory == Memory::kStaging    ? ops.allocate_staging(bytes)
              : memory == Memory::kReserved ? reserve(bytes)
                                            : ops.allocate(bytes)),
      bytes_(bytes) {}

DeviceBuffer::~DeviceBuffer() {
  if (memory_ == nullptr) return;
  if (kind_ == Memory::kStaging) {
    ops_->release_staging(memory_);
  } else if (kind_ == Memory::kReserved) {
    ::munmap(memory_, bytes_);
  } else {
    ops_->release(memory_);
  }
}

void DeviceBuffer::give_back(size_t first, size_t bytes) {
  const auto page = static_cast<size_t>(::getpagesize());
  const size_t begin = (first + page - 1) / page * page, end = (first + bytes) / page * page;
  if (begin < end) ::madvise(static_cast<std::byte*>(memory_) + begin, end - begin, MADV_DONTNEED);
}

}  // namespace holdfast::model

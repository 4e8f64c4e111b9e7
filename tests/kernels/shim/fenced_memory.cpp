#include "tests/kernels/shim/fenced_memory.h"

#include <sys/mman.h>

#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#include <hip/hip_runtime.h>

namespace shim {
namespace {

constexpr size_t kPage = 4096, kReserved = size_t{64} << 30;  // address space; a page gets memory at its first use

struct Arena {
  char *begin = nullptr, *next = nullptr;
  std::map<size_t, std::vector<void*>> free;
  int opened = 0;
} arena;

void protect(int rights) {
  if (arena.next != arena.begin && ::mprotect(arena.begin, static_cast<size_t>(arena.next - arena.begin), rights) != 0)
    give_up("the fence around device memory cannot be moved");
}

size_t in_pages(size_t bytes) {
  return (bytes + kPage - 1) / kPage * kPage;
}

}  // namespace

bool FencedMemory::is_wanted() {
  static const bool wanted = std::getenv("HOLDFAST_SHIM_FENCE") != nullptr;  // NOLINT(concurrency-mt-unsafe)
  return wanted;
}

void* FencedMemory::allocate(size_t bytes) {
  auto& free = arena.free[in_pages(bytes)];
  if (!free.empty()) {
    void* const memory = free.back();
    free.pop_back();
    return memory;
  }
  if (arena.begin == nullptr) {
    void* const reserved = ::mmap(nullptr, kReserved, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (reserved == MAP_FAILED) give_up("no addresses for device memory");
    arena.begin = arena.next = static_cast<char*>(reserved);
  }
  char* const memory = arena.next;
  arena.next += in_pages(bytes);
  if (arena.next > arena.begin + kReserved) give_up("device memory was given out " + std::to_string(kReserved) + " bytes over");
  if (arena.opened > 0) protect(PROT_READ | PROT_WRITE);
  return memory;
}

void FencedMemory::release(void* memory, size_t bytes) {
  arena.free[in_pages(bytes)].push_back(memory);
}

FencedMemory::Opened::Opened() {
  if (arena.opened++ == 0) protect(PROT_READ | PROT_WRITE);
}
FencedMemory::Opened::~Opened() {
  if (--arena.opened == 0) protect(PROT_NONE);
}

}  // namespace shim

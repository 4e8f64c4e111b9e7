// roctx: ROCm's rocprofiler-sdk-roctx and its older roctracer. NVTX: NVIDIA Tools Extension, libnvToolsExt of CUDA up to 12; in
// newer ones NVTX is a header alone.
#include "worker/profile/ranges.h"

#include <dlfcn.h>

#include <atomic>
#include <cstdlib>
#include <string_view>

#include "worker/profile/span.h"

namespace holdfast::worker {
namespace {

using Push = int (*)(const char*);
using Pop = int (*)();

std::atomic<Push> push_of_library{nullptr};
std::atomic<Pop> pop_of_library{nullptr};

}  // namespace

bool load_ranges(const std::string& library, const char* push, const char* pop) {
  void* const loaded = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);  // until the process ends
  if (loaded == nullptr) return false;
  const auto found_push = reinterpret_cast<Push>(dlsym(loaded, push));
  const auto found_pop = reinterpret_cast<Pop>(dlsym(loaded, pop));
  if (found_push == nullptr || found_pop == nullptr) return false;
  pop_of_library = found_pop;
  push_of_library = found_push;
  return true;
}

void show_ranges_of_gpu() {
  const bool there = push_of_library != nullptr ||
                     load_ranges("librocprofiler-sdk-roctx.so.1", "roctxRangePushA", "roctxRangePop") ||
                     load_ranges("libroctx64.so.4", "roctxRangePushA", "roctxRangePop") ||
                     load_ranges("libnvToolsExt.so.1", "nvtxRangePushA", "nvtxRangePop");
  const char* const wish = std::getenv("HOLDFAST_RANGES");
  if (there && wish != nullptr && wish == std::string_view("1")) always_show_ranges(true);
}

void always_show_ranges(bool always) {
  if (always) {
    detail::wanted.fetch_or(1);
  } else {
    detail::wanted.fetch_and(~uint64_t{1});
  }
}

void push_range(const char* name) {
  if (const Push push = push_of_library.load(std::memory_order_acquire)) push(name);
}
void pop_range() {
  if (const Pop pop = pop_of_library.load(std::memory_order_acquire)) pop();
}

}  // namespace holdfast::worker

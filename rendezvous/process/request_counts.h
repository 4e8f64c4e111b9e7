// How often this process was asked for something, since its start; not counted are /healthz, /readyz and /metrics, which are
// asked by whoever watches it. Thread: any.
#pragma once

#include <atomic>
#include <cstdint>

namespace holdfast::rendezvous {

struct RequestCounts {
  std::atomic<int64_t> heard = 0;
  std::atomic<int64_t> refused = 0;  // of them, because another service leads
};

}  // namespace holdfast::rendezvous

// Pauses that double from one failure in a row to the next. Pure: times are arguments.
#pragma once

#include <algorithm>
#include <cstdint>

namespace holdfast::rendezvous {

// After the first failure `first_ms`, after the second twice as long, and so on; never more than `longest_ms`.
inline int64_t growing_pause(int64_t first_ms, int64_t longest_ms, int64_t failures) {
  constexpr int64_t kDoublingsMax = 20;  // far beyond every longest pause, and no overflow
  return std::min(longest_ms, first_ms << std::clamp<int64_t>(failures - 1, 0, kDoublingsMax));
}

}  // namespace holdfast::rendezvous

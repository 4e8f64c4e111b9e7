#include "worker/data_sets/chunk_choice.h"

#include <algorithm>

namespace holdfast::worker {

int64_t choose_chunk(const WantedChunks& wanted, const std::vector<bool>& source_has, uint64_t salt) {
  const size_t chunks = std::min(wanted.settled.size(), source_has.size());
  for (const int64_t chunk : wanted.first) {
    const auto i = static_cast<size_t>(chunk);
    if (i < chunks && source_has[i] && !wanted.settled[i]) return chunk;
  }
  int64_t best = -1;
  const size_t begin = chunks == 0 ? 0 : salt % chunks;
  for (size_t n = 0; n < chunks; ++n) {
    const size_t i = (begin + n) % chunks;
    if (!source_has[i] || wanted.settled[i]) continue;
    if (best < 0 || wanted.copies[i] < wanted.copies[static_cast<size_t>(best)]) best = static_cast<int64_t>(i);
  }
  return best;
}

}  // namespace holdfast::worker

// The chunk that a worker gets next from one of its sources. Pure.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace holdfast::worker {

struct WantedChunks {
  std::vector<bool> settled;   // by chunk: it is here, or on its way
  std::vector<int64_t> first;  // needed first, in this order
  std::vector<int> copies;     // by chunk: how many sources have it
};

// A chunk that the source has and that is wanted: of those needed first the first, else one of those with the fewest copies.
// `salt` decides between equals, so that workers that begin together do not all get the same. -1: there is none.
int64_t choose_chunk(const WantedChunks& wanted, const std::vector<bool>& source_has, uint64_t salt);

}  // namespace holdfast::worker

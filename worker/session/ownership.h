// The owners of a divided state's chunks in a generation (worker/state/divided).
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "rendezvous/placement/placement.h"

namespace holdfast::worker {

struct Ownership {
  rendezvous::Placement target;  // the owners once nobody lacks anything
  // By chunk, ranks: the target's owners, and as long as some of these lack the chunk, others who have it, so that it is never
  // on fewer ranks than it was. All receive its sums.
  std::vector<std::vector<int32_t>> owners;
  // By chunk, those of its owners that do not have it yet: it comes to them while training goes on (divided/filling.h). Until
  // then they update nothing of it, and nobody takes anything of it from them.
  std::vector<std::vector<int32_t>> lacking;
  // By chunk, ranks that do not have its compute copy yet: it comes to them while training goes on, too. A rank computes no
  // microbatches before it has all copies.
  std::vector<std::vector<int32_t>> without_copy;

  bool copies_are_here() const {
    return std::ranges::all_of(without_copy, [](const auto& ranks) { return ranks.empty(); });
  }
  bool lacks_nothing() const {
    return copies_are_here() && std::ranges::all_of(lacking, [](const auto& ranks) { return ranks.empty(); });
  }
  // Then nobody needs anything of another rank after a step.
  bool everybody_has_everything(int world_size) const { return target.replicas == world_size && lacks_nothing(); }
};

}  // namespace holdfast::worker

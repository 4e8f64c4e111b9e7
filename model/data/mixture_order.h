// The source that each sequence of a mixture comes from: a pure function of (seed, shares, sequence number).
//
// Sequences are dealt in blocks of W, the sum of the shares: in each block exactly share_i are of source i. A block is dealt in
// groups of at most kGroup sequences, each with its part of every source to within a few, in an order that the seed shuffles:
// so no row of a batch, and no replica of local steps, always gets the same source. The sequences of a source are numbered as
// they are dealt, without gaps: a job goes through each source exactly as if it were the only one.
//
// Dropped: one shuffle of the whole block, a Feistel network with numbers that were places in the block. With weights of many
// digits a block is longer than a job, and some windows of a source came several times before others came once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace holdfast::model {

struct MixtureOrder {
  static constexpr int64_t kGroup = 256;

  uint64_t seed = 0;
  std::vector<int64_t> shares;  // at least one; each at least 1, and all together below 2^62

  struct Dealt {
    size_t source;
    int64_t number;  // among the sequences of its source
    bool operator==(const Dealt&) const = default;
  };
  // The sequences first, first + 1, … The time is that of `count` and two groups.
  std::vector<Dealt> deal(int64_t first, int64_t count) const;

  // The seed of a source's own order. The first source's is the job's: a mixture of one is no mixture.
  uint64_t seed_of(size_t source) const;
};

}  // namespace holdfast::model

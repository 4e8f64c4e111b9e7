// The owners of all chunks, in the making. Private to the placement.
//
// 1. Keep: each chunk's holders remain its owners, up to k of them, on as many nodes as can be.
// 2. Fill: missing owners are taken from nodes that lack the chunk, where the most is missing from the share. Of members that
//    lack alike, to within b, it is the one that has the least in common with the chunk's other owners: so a lost member's
//    chunks are with many.
// 3. Even out (evening.h) the differences between what members own and their shares. A copy that has to be made anyway moves
//    for nothing, one that is held costs a copy. No move spoils the nodes: where each copy has its own node (Shares::apart)
//    it keeps one; where not, a node with room for all keeps one of each chunk, and one with less never has two.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "rendezvous/placement/placement.h"
#include "rendezvous/placement/shares.h"

namespace holdfast::rendezvous {

// (chunks, members) bits.
class ChunkTable {
 public:
  ChunkTable(size_t chunks, size_t members) : members_(members), bits_(chunks * members) {}
  bool at(size_t chunk, size_t member) const { return bits_[chunk * members_ + member] != 0; }
  void set(size_t chunk, size_t member, bool value) { bits_[chunk * members_ + member] = value ? 1 : 0; }

 private:
  size_t members_;
  std::vector<uint8_t> bits_;  // bytes: they are read a few million times
};

class Owners {
 public:
  // All but `k` must outlive it. Rooms together are enough.
  Owners(std::span<const int64_t> chunk_bytes, const ChunkTable& held, const Rooms& rooms, const Shares& shares, int32_t k);

  void deal(int64_t tolerance);

  std::span<const int32_t> of(size_t chunk) const {
    return std::span(owners_).subspan(chunk * static_cast<size_t>(k_), static_cast<size_t>(k_));
  }
  bool owns(size_t member, size_t chunk) const { return owned_.at(chunk, member); }

  // --- the rule of evening.h: chunks are the units, members the bins
  static constexpr size_t kCosts = 3;  // a copy less, none, one more
  int cost(size_t chunk, size_t from, size_t to) const;
  static int64_t weight(size_t cost);
  bool has(size_t chunk, size_t member) const { return owns(member, chunk); }
  void move(size_t chunk, size_t from, size_t to);
  std::span<const int32_t> bins_of(size_t chunk) const { return of(chunk); }

 private:
  std::span<const int32_t> known(size_t chunk) const { return of(chunk).first(static_cast<size_t>(count_[chunk])); }
  int64_t shared_with(size_t chunk, size_t member) const;
  bool must_have_all(int32_t node) const { return !shares_.apart && shares_.whole[static_cast<size_t>(node)]; }
  int32_t due(size_t chunk) const;
  int32_t copies_on(size_t chunk, int32_t node) const;
  // The better first: its node must have the chunk and lacks it; may have it and lacks it; has it and may have two; may not.
  enum class Fit { kDue, kApart, kDoubles, kSpoils };
  struct Candidate {  // for a chunk; the least is the best
    Fit fit;
    int64_t excess_in_chunks, in_common, excess;
    size_t member;
    auto operator<=>(const Candidate&) const = default;
  };
  bool add_best(size_t chunk, bool of_holders);
  Fit fit_of(size_t chunk, size_t member) const;
  void add(size_t chunk, size_t member);

  std::span<const int64_t> bytes_;
  const ChunkTable& held_;
  const Rooms& rooms_;
  const Shares& shares_;
  int32_t k_;
  size_t members_;
  int64_t largest_;
  ChunkTable owned_;
  std::vector<int32_t> owners_, count_;  // (chunks, k), the first `count_` of them known; (chunks)
  std::vector<int32_t> musts_;           // the nodes that must have each chunk
  std::vector<int64_t> shared_;          // (members, members): bytes of the chunks that keep and fill gave to both
  bool all_are_held_ = false;            // by their owners, and by nobody else
  std::vector<int64_t> excess_;          // by member: owned less share
};

}  // namespace holdfast::rendezvous

#include "rendezvous/placement/placement_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

namespace holdfast::rendezvous {
namespace {

template <typename... Values>
void must_hold(bool holds, fmt::format_string<const Values&...> otherwise, const Values&... values) {
  if (!holds) throw std::logic_error("broken placement: " + fmt::format(otherwise, values...));
}

bool holds(const PlacementMember& member, size_t chunk) {
  return chunk < member.holds.size() && member.holds[chunk];
}

// Adds the bytes to what each owner has.
void check_owners(const PlacementQuestion& question, std::span<const int32_t> owners, size_t chunk,
                  std::vector<int64_t>& owned) {
  for (size_t i = 0; i < owners.size(); ++i) {
    const int32_t owner = owners[i];
    must_hold(owner >= 0 && static_cast<size_t>(owner) < owned.size(), "chunk {} is given to rank {}, which is no member",
              chunk, owner);
    must_hold(i < 2 || owners[i - 1] < owner, "chunk {} has the owners {} and {} in this order", chunk, owners[i - (i > 0)],
              owner);
    must_hold(i == 0 || owners[0] != owner, "chunk {} is given to rank {} twice", chunk, owner);
    owned[static_cast<size_t>(owner)] += question.chunk_bytes[chunk];
  }
}

bool is_source(const PlacementQuestion& question, int32_t rank, size_t chunk) {
  return rank >= 0 && static_cast<size_t>(rank) < question.members.size() &&
         holds(question.members[static_cast<size_t>(rank)], chunk);
}

// The copies beginning at `next` that the chunk needs; moves `next` behind them.
void check_copies(const PlacementQuestion& question, const Placement& placement, size_t chunk, size_t& next) {
  std::vector<int32_t> owners(placement.owners_of(chunk).begin(), placement.owners_of(chunk).end());
  std::ranges::sort(owners);
  for (const int32_t owner : owners) {
    if (holds(question.members[static_cast<size_t>(owner)], chunk)) continue;
    const bool is_next = next < placement.copies.size() && placement.copies[next].to == owner &&
                         placement.copies[next].chunk == static_cast<int32_t>(chunk);
    must_hold(is_next, "no copy of chunk {} goes to its owner {}", chunk, owner);
    const int32_t from = placement.copies[next++].from;
    must_hold(is_source(question, from, chunk), "chunk {} is to come from rank {}, which does not hold it", chunk, from);
  }
}

}  // namespace

void require_sound(const PlacementQuestion& question, const Placement& placement) {
  const size_t chunks = question.chunk_bytes.size(), members = question.members.size();
  const auto k = std::min(question.replicas, static_cast<int64_t>(members));
  must_hold(placement.replicas == k && placement.owners.size() == chunks * static_cast<size_t>(k),
            "{} chunks have {} owners, {} each: {} each are expected", chunks, placement.owners.size(), placement.replicas, k);
  std::vector<int64_t> owned(members, 0);
  size_t next = 0;
  for (size_t chunk = 0; chunk < chunks; ++chunk) {
    check_owners(question, placement.owners_of(chunk), chunk, owned);
    if (!placement.from_source) check_copies(question, placement, chunk, next);
  }
  must_hold(next == placement.copies.size(), "{} copies are made, and {} are needed", placement.copies.size(), next);
  for (size_t rank = 0; rank < members; ++rank) {
    const PlacementMember& member = question.members[rank];
    must_hold(member.bytes_max == 0 || owned[rank] <= member.bytes_max, "rank {} owns {} bytes, and its limit is {}", rank,
              owned[rank], member.bytes_max);
    must_hold(!placement.from_source || std::ranges::find(member.holds, true) == member.holds.end(),
              "all comes from a source, and rank {} holds chunks", rank);
  }
}

}  // namespace holdfast::rendezvous

#include "worker/state/divided/owners.h"

#include <algorithm>
#include <utility>

namespace holdfast::worker {

using rendezvous::Placement;

namespace {

std::vector<bool> chunks_of(const std::vector<std::vector<int32_t>>& ranks_of, size_t rank) {
  std::vector<bool> chunks;
  for (const auto& ranks : ranks_of) chunks.push_back(std::ranges::find(ranks, static_cast<int32_t>(rank)) != ranks.end());
  return chunks;
}

}  // namespace

RankSet holders_of(const Ownership& ownership, size_t chunk, size_t world_size) {
  RankSet holders(world_size);
  for (const int32_t rank : ownership.owners[chunk]) holders[static_cast<size_t>(rank)] = true;
  for (const int32_t rank : ownership.lacking[chunk]) holders[static_cast<size_t>(rank)] = false;
  return holders;
}

std::vector<bool> owned_by(const Ownership& ownership, size_t rank) {
  return chunks_of(ownership.owners, rank);
}

std::vector<bool> lacked_by(const Ownership& ownership, size_t rank) {
  return chunks_of(ownership.lacking, rank);
}

std::vector<bool> copies_to_come(const Ownership& ownership, size_t rank) {
  return chunks_of(ownership.without_copy, rank);
}

RankSet computing_ranks(const Ownership& ownership, size_t world_size) {
  RankSet computing(world_size, true);
  for (const auto& ranks : ownership.without_copy) {
    for (const int32_t rank : ranks) computing[static_cast<size_t>(rank)] = false;
  }
  return computing;
}

Ownership settled(const Placement& placement, size_t chunks) {
  Ownership ownership{placement, {}, std::vector<std::vector<int32_t>>(chunks), std::vector<std::vector<int32_t>>(chunks)};
  for (size_t c = 0; c < chunks; ++c) {
    const auto owners = placement.owners_of(c);
    ownership.owners.emplace_back(owners.begin(), owners.end());
  }
  return ownership;
}

Ownership on_the_way(const Placement& placement, const Holdings& holdings, size_t chunks) {
  Ownership ownership = settled(placement, chunks);
  for (size_t c = 0; c < chunks; ++c) {
    auto& owners = ownership.owners[c];
    std::vector<int32_t> others;
    for (size_t rank = 0; rank < holdings.nodes.size(); ++rank) {
      const bool has = holdings.has[c][rank] && holdings.has[chunks + c][rank] && holdings.has[2 * chunks + c][rank];
      const bool owns = std::ranges::find(owners, static_cast<int32_t>(rank)) != owners.end();
      if (owns && !has) ownership.lacking[c].push_back(static_cast<int32_t>(rank));
      if (has && !owns) others.push_back(static_cast<int32_t>(rank));
    }
    others.resize(std::min(others.size(), ownership.lacking[c].size()));
    owners.insert(owners.end(), others.begin(), others.end());
  }
  return ownership;
}

void leave_copies_for_later(Ownership& ownership, const Holdings& holdings, const RankSet& leaving) {
  const size_t world_size = leaving.size();
  bool others_stay = false;
  for (size_t rank = 0; rank < world_size; ++rank) others_stay |= !holdings.newcomers[rank] && !leaving[rank];
  const auto copies_at = holdings.pieces.copies_at;
  if (!others_stay || !copies_at) return;
  for (size_t c = 0; c < ownership.owners.size(); ++c) {
    const RankSet holders = holders_of(ownership, c, world_size);
    for (size_t rank = 0; rank < world_size; ++rank) {
      if (holdings.newcomers[rank] && !holders[rank] && !holdings.has[*copies_at + c][rank])
        ownership.without_copy[c].push_back(static_cast<int32_t>(rank));
    }
  }
}

rendezvous::PlacementQuestion question_of(std::vector<int64_t> chunk_bytes, int64_t replicas, const Holdings& holdings,
                                          const RankSet& leaving) {
  const size_t chunks = chunk_bytes.size();
  rendezvous::PlacementQuestion question;
  question.chunk_bytes = std::move(chunk_bytes);
  question.replicas = std::min<int64_t>(replicas, std::ranges::count(leaving, false));
  for (size_t rank = 0; rank < holdings.nodes.size(); ++rank) {
    rendezvous::PlacementMember member{.node = holdings.nodes[rank], .bytes_max = leaving[rank] ? 1 : 0, .holds = {}};
    for (size_t c = 0; c < chunks; ++c) {
      member.holds.push_back(holdings.has[c][rank] && holdings.has[chunks + c][rank] && holdings.has[2 * chunks + c][rank]);
    }
    question.members.push_back(std::move(member));
  }
  return question;
}

}  // namespace holdfast::worker

#include "worker/state/divided/owners.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <variant>

#include "rendezvous/text/plural.h"

namespace holdfast::worker {

using rendezvous::Placement;

RankSet owners_of(const Placement& placement, size_t chunk, size_t world_size) {
  RankSet owners(world_size);
  for (const int32_t rank : placement.owners_of(chunk)) owners[static_cast<size_t>(rank)] = true;
  return owners;
}

std::vector<bool> owned_by(const Placement& placement, size_t chunks, size_t rank, size_t world_size) {
  std::vector<bool> owned;
  for (size_t c = 0; c < chunks; ++c) owned.push_back(owners_of(placement, c, world_size)[rank]);
  return owned;
}

std::vector<bool> written_by(const Session& session, size_t rank, size_t world_size) {
  const auto chunks = session.model->table().chunks();
  std::vector<bool> writes(session.state->pieces().size(), rank == 0);
  std::vector<int64_t> written(world_size);
  for (size_t c = 0; c < chunks.size(); ++c) {
    const auto writer = static_cast<size_t>(std::ranges::min(
        session.placement.owners_of(c), {}, [&](int32_t owner) { return written[static_cast<size_t>(owner)]; }));
    written[writer] += chunks[c].count;
    for (size_t kind = 0; kind < 3; ++kind) writes[kind * chunks.size() + c] = writer == rank;
  }
  return writes;
}

void divide_gradient(Session& session, size_t world_size) {
  const auto chunks = session.model->table().chunks();
  std::vector<SumPart> parts;
  std::vector<model::Elements> own;
  const auto& owned = session.state->owned();
  for (size_t c = 0; c < chunks.size(); ++c) {
    const auto [first, count] = chunks[c];
    const SumPart part = part_for(static_cast<size_t>(first), static_cast<size_t>(count), session.placement.owners_of(c),
                                  static_cast<int>(world_size));
    if (!parts.empty() && parts.back().end == part.end && parts.back().further == part.further) {
      parts.back().count += part.count;
    } else {
      parts.push_back(part);
    }
    if (!owned[c]) continue;
    if (!own.empty() && own.back().first + own.back().count == first) {
      own.back().count += count;
    } else {
      own.push_back(chunks[c]);
    }
  }
  if (session.scattered) {
    session.lose_gradient();
    return session.scattered->divide(std::move(parts), own);
  }
  const bool all_own_all = session.placement.replicas == static_cast<int32_t>(world_size);
  session.gradients->mean().divide(all_own_all ? std::vector<SumPart>() : std::move(parts), std::move(own));
}

namespace {

// Ranks that leave hold what they hold, and are to own nothing.
rendezvous::PlacementQuestion question_of(const Session& session, const Holdings& holdings, const RankSet& leaving) {
  rendezvous::PlacementQuestion question;
  const auto chunks = session.model->table().chunks();
  constexpr int64_t kStateBytes = 3 * sizeof(float);  // of a parameter: itself and its moments
  for (const auto& chunk : chunks) question.chunk_bytes.push_back(chunk.count * kStateBytes);
  question.replicas = std::min(session.spec.replicas, std::ranges::count(leaving, false));
  for (size_t rank = 0; rank < holdings.nodes.size(); ++rank) {
    rendezvous::PlacementMember member{.node = holdings.nodes[rank], .bytes_max = leaving[rank] ? 1 : 0, .holds = {}};
    for (size_t c = 0; c < chunks.size(); ++c) {
      member.holds.push_back(holdings.has[c][rank] && holdings.has[chunks.size() + c][rank] &&
                             holdings.has[2 * chunks.size() + c][rank]);
    }
    question.members.push_back(std::move(member));
  }
  return question;
}

RunStop lost_chunks(const Session& session, const std::vector<int32_t>& lost) {
  const auto& table = session.model->table();
  const auto first = table.chunks()[static_cast<size_t>(lost.front())].first;
  const auto entry =
      std::ranges::find_if(table.entries, [&](const auto& tensor) { return first < tensor.offset + tensor.count; });
  RunStop stop =
      fault("state_lost", fmt::format("no worker has {} of the state any more (the first is of {}): every owner of {} "
                                      "is gone",
                                      rendezvous::counted(static_cast<int64_t>(lost.size()), "chunk"), entry->name,
                                      lost.size() == 1 ? "it" : "each"));
  stop.state_is_wrong = true;
  return stop;
}

}  // namespace

RunResult<Placement> place_chunks(const Session& session, const Holdings& holdings, const RankSet& leaving) {
  auto placed = rendezvous::place(question_of(session, holdings, leaving));
  if (!placed) return tl::unexpected(job_failed("the state cannot be divided: " + placed.error()));
  if (const auto* const lost = std::get_if<rendezvous::LostChunks>(&*placed))
    return tl::unexpected(lost_chunks(session, lost->chunks));
  return std::get<Placement>(std::move(*placed));
}

}  // namespace holdfast::worker

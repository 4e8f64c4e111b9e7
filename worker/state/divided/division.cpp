#include "worker/state/divided/division.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <variant>

#include "rendezvous/text/plural.h"

namespace holdfast::worker {

using rendezvous::Placement;

namespace {

constexpr int64_t kStateBytes = 3 * sizeof(float);  // of a parameter: itself and its moments

}  // namespace

std::optional<rendezvous::StateDivision> division_of(const Session& session, size_t world_size) {
  if (!session.is_divided()) return std::nullopt;
  const auto chunks = session.model->table().chunks();
  rendezvous::StateDivision division{static_cast<int64_t>(world_size), 0, session.ownership.target.nodes_min,
                                     std::vector<int64_t>(world_size)};
  for (size_t c = 0; c < chunks.size(); ++c) {
    const RankSet holders = holders_of(session.ownership, c, world_size);
    division.copies = std::min<int64_t>(division.copies, std::ranges::count(holders, true));
    division.bytes_to_come += static_cast<int64_t>(session.ownership.lacking[c].size()) * chunks[c].count * kStateBytes;
    for (size_t rank = 0; rank < world_size; ++rank)
      division.owned_bytes[rank] += holders[rank] ? chunks[c].count * kStateBytes : 0;
  }
  division.nodes = std::min(division.nodes, division.copies);
  return division;
}

std::vector<bool> written_by(const Session& session, size_t rank, size_t world_size) {
  const auto chunks = session.model->table().chunks();
  std::vector<bool> writes(session.state->pieces().size(), rank == 0);
  std::vector<int64_t> written(world_size);
  for (size_t c = 0; c < chunks.size(); ++c) {
    const RankSet holders = holders_of(session.ownership, c, world_size);
    size_t writer = world_size;
    for (size_t other = 0; other < world_size; ++other) {
      if (holders[other] && (writer == world_size || written[other] < written[writer])) writer = other;
    }
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
    const SumPart part = part_for(static_cast<size_t>(first), static_cast<size_t>(count), session.ownership.owners[c],
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
  const bool all_own_all = session.ownership.target.replicas == static_cast<int32_t>(world_size);
  session.gradients->mean().divide(all_own_all ? std::vector<SumPart>() : std::move(parts), std::move(own));
}

void own_what_is_said(Session& session, const Ownership& ownership, size_t rank, size_t world_size) {
  const auto lacks = lacked_by(ownership, rank);
  session.state->own(owned_by(ownership, rank), lacks);
  session.sound = session.state->owned();
  for (size_t c = 0; c < lacks.size(); ++c) session.sound[c] = session.sound[c] && !lacks[c];
  session.copied = copies_to_come(ownership, rank);
  session.copied.flip();
  session.ownership = ownership;
  divide_gradient(session, world_size);
}

RunStop lost_chunks(const Session& session, const std::vector<size_t>& lost) {
  const auto& table = session.model->table();
  const auto first = table.chunks()[lost.front()].first;
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

RunResult<Placement> place_chunks(const Session& session, const Holdings& holdings, const RankSet& leaving) {
  std::vector<int64_t> chunk_bytes;
  for (const auto& chunk : session.model->table().chunks()) chunk_bytes.push_back(chunk.count * kStateBytes);
  auto placed = rendezvous::place(question_of(std::move(chunk_bytes), session.spec.replicas, holdings, leaving));
  if (!placed) return tl::unexpected(job_failed("the state cannot be divided: " + placed.error()));
  if (const auto* const lost = std::get_if<rendezvous::LostChunks>(&*placed))
    return tl::unexpected(lost_chunks(session, {lost->chunks.begin(), lost->chunks.end()}));
  return std::get<Placement>(std::move(*placed));
}

}  // namespace holdfast::worker

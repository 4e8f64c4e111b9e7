#include "worker/state/divided/compute_copies.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "model/parameter_views.h"
#include "worker/drills/fault_points.h"
#include "worker/profile/span.h"
#include "worker/sharding/differences.h"
#include "worker/state/divided/owners.h"

namespace holdfast::worker {
namespace {

// Chunks go in groups, an operation each: of some megabytes, and several in any case (routes.cpp says why).
constexpr size_t kGroupChunksMax = 64;
constexpr size_t kGroupsMin = 4;

class SharingDifferences {
 public:
  SharingDifferences(Communicator& ring, Session& session)
      : ring_(ring),
        session_(session),
        ops_(*session.ops),
        me_(ring.rank()),
        chunks_(session.model->table().chunks()),
        coded_(chunks_.size()) {
    const auto world_size = static_cast<size_t>(ring.world_size());
    const auto later = copies_to_come(session.ownership, static_cast<size_t>(me_));
    for (size_t c = 0; c < chunks_.size(); ++c) {
      has_.push_back(holders_of(session.ownership, c, world_size));
      RankSet wants(world_size, true);
      for (const int32_t rank : session.ownership.without_copy[c]) wants[static_cast<size_t>(rank)] = false;
      ways_.push_back(way_of(has_[c], wants, me_));
      takes_.push_back(ways_[c].receives && !later[c]);
      wants_.push_back(std::move(wants));
    }
  }

  RunResult<void> run() {
    renew_own();
    if (const auto told = gather_sizes(); !told) return tl::unexpected(ring_stop(told.error()));
    const size_t group = std::clamp<size_t>(chunks_.size() / kGroupsMin, 1, kGroupChunksMax);
    for (size_t first = 0; first < chunks_.size(); first += group) {
      fault_point("share", session_.state->step, me_);
      if (const auto passed = pass(first, std::min(first + group, chunks_.size())); !passed)
        return tl::unexpected(ring_stop(passed.error()));
    }
    if (auto taken = take(); !taken) return taken;
    session_.state->copies_changed();
    return {};
  }

 private:
  static std::span<const uint16_t> halves(const std::vector<std::byte>& bytes) {
    return {reinterpret_cast<const uint16_t*>(bytes.data()), bytes.size() / sizeof(uint16_t)};
  }

  void fetch(std::vector<std::byte>& to, const model::ComputeCopy& copy) {
    to.resize(copy.bytes);
    ops_.copy_to_host(to.data(), copy.data, copy.bytes);
  }

  // The copies of what this rank owns, and their coded differences where the successor lacks them.
  void renew_own() {
    DifferenceEncoder encoder;
    std::vector<std::byte> before, after;
    for (size_t c = 0; c < chunks_.size(); ++c) {
      if (!has_[c][static_cast<size_t>(me_)]) continue;
      const model::ComputeCopy copy = session_.model->copy_of(chunks_[c]);
      if (ways_[c].sends && copy.is_half) fetch(before, copy);
      session_.state->refresh(c);
      if (!ways_[c].sends) continue;
      ops_.synchronize();
      fetch(after, copy);
      if (copy.is_half) {
        const auto bytes = encoder.encode(halves(before), halves(after));
        coded_[c].assign(bytes.begin(), bytes.end());
      } else {
        coded_[c] = after;
      }
    }
  }

  // The owner that rank `me` takes a chunk from: the nearest before it on the ring.
  size_t source_of(size_t chunk) const {
    const size_t world_size = has_[chunk].size();
    size_t rank = static_cast<size_t>(me_);
    while (!has_[chunk][rank]) rank = (rank + world_size - 1) % world_size;
    return rank;
  }

  // Every rank tells how long what it sends first is, chunk by chunk; then this one makes room for what it takes.
  CollectiveResult<void> gather_sizes() {
    const size_t world_size = static_cast<size_t>(ring_.world_size());
    std::vector<std::vector<uint32_t>> sizes(world_size);
    std::vector<size_t> mine_at(chunks_.size());  // of the chunk's source, where among its sizes this chunk is
    for (size_t c = 0; c < chunks_.size(); ++c) {
      for (size_t rank = 0; rank < world_size; ++rank) {
        if (!has_[c][rank] || !way_of(has_[c], wants_[c], static_cast<int>(rank)).sends) continue;
        if (ways_[c].receives && rank == source_of(c)) mine_at[c] = sizes[rank].size();
        sizes[rank].push_back(rank == static_cast<size_t>(me_) ? static_cast<uint32_t>(coded_[c].size()) : 0);
      }
    }
    std::vector<std::span<std::byte>> blocks;
    for (auto& of_rank : sizes) blocks.push_back(std::as_writable_bytes(std::span(of_rank)));
    if (auto told = ring_.all_gather_into(blocks); !told) return told;
    for (size_t c = 0; c < chunks_.size(); ++c) {
      if (!ways_[c].receives) continue;
      const size_t most = session_.model->copy_of(chunks_[c]).bytes + kDifferencesHeaderBytes;
      coded_[c].resize(std::min<size_t>(sizes[source_of(c)][mine_at[c]], most));
    }
    return {};
  }

  CollectiveResult<void> pass(size_t first, size_t last) {
    std::vector<std::span<const std::byte>> outgoing;
    std::vector<std::span<std::byte>> incoming;
    for (size_t c = first; c < last; ++c) {
      if (ways_[c].receives) incoming.emplace_back(coded_[c]);
      if (ways_[c].sends) outgoing.emplace_back(coded_[c]);
    }
    return ring_.relay(outgoing, incoming);
  }

  // On the host, also where copies are on a device.
  RunResult<void> take() {
    DifferenceDecoder decoder;
    std::vector<std::byte> bytes;
    for (size_t c = 0; c < chunks_.size(); ++c) {
      if (!takes_[c]) continue;
      const model::ComputeCopy copy = session_.model->copy_of(chunks_[c]);
      if (!copy.is_half) {
        if (coded_[c].size() != copy.bytes) return altered(c, fmt::format("{} bytes, not {}", coded_[c].size(), copy.bytes));
        ops_.copy_to_device(copy.data, coded_[c].data(), copy.bytes);
        continue;
      }
      std::byte* here = copy.data;
      if (!ops_.memory_is_host()) {
        fetch(bytes, copy);
        here = bytes.data();
      }
      const auto decoded = decoder.decode(coded_[c], {reinterpret_cast<uint16_t*>(here), copy.bytes / sizeof(uint16_t)});
      if (!decoded) return altered(c, decoded.error());
      if (here != copy.data) ops_.copy_to_device(copy.data, here, copy.bytes);
    }
    return {};
  }

  RunResult<void> altered(size_t chunk, const std::string& reason) const {
    const auto source = static_cast<int>(source_of(chunk));
    return tl::unexpected(
        fault("connection_lost",
              fmt::format("the new copy of chunk {} of the parameters from rank {} cannot be used: {}", chunk, source, reason),
              source));
  }

  Communicator& ring_;
  Session& session_;
  kernels::DeviceOps& ops_;
  const int me_;
  std::vector<model::Elements> chunks_;
  std::vector<RankSet> has_, wants_;           // by chunk: the owners that have it; ranks that have the copy of before
  std::vector<Way> ways_;                      // by chunk
  std::vector<bool> takes_;                    // by chunk: this rank does, and does not only pass it on
  std::vector<std::vector<std::byte>> coded_;  // by chunk: what this rank sends or takes
};

}  // namespace

CollectiveResult<void> share_copies_as_they_are(Communicator& ring, Session& session) {
  if (session.model->copies_by_layer() || session.ownership.everybody_has_everything(ring.world_size())) return {};
  const auto world_size = static_cast<size_t>(ring.world_size());
  const RankSet all(world_size, true);
  std::vector<RoutedPiece> pieces;
  const auto copies = session.state->copies();
  for (size_t c = 0; c < copies.size(); ++c) {
    const Way way = way_of(holders_of(session.ownership, c, world_size), all, ring.rank());
    pieces.push_back({copies[c].data, copies[c].bytes, false, way});
  }
  const auto passed = route(ring, *session.ops, pieces, "share", session.state->step);
  if (!passed) return tl::unexpected(passed.error());
  session.state->copies_changed();
  session.ownership.without_copy.assign(copies.size(), {});
  session.copied.assign(copies.size(), true);
  return {};
}

RunResult<void> share_copies(Communicator& ring, Session& session) {
  const Span span(SpanKind::kRing, "parameters from their owners");
  const bool is_here = session.ownership.everybody_has_everything(ring.world_size());
  if (is_here || session.model->copies_by_layer()) {  // or passes ask for what they need (parameter_gathering.h)
    session.state->bytes_changed();
    return {};
  }
  if (session.state->copies_apart()) return SharingDifferences(ring, session).run();
  if (const auto passed = share_copies_as_they_are(ring, session); !passed) return tl::unexpected(ring_stop(passed.error()));
  return {};
}

}  // namespace holdfast::worker

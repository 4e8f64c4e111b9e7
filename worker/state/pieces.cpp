#include "worker/state/pieces.h"

#include <algorithm>
#include <string>

#include "storage/checksum.h"
#include "worker/drills/fault_points.h"
#include "worker/transport/wire_bytes.h"

namespace holdfast::worker {
namespace {

using Hashes = std::vector<uint64_t>;
using Marks = std::vector<bool>;  // by piece

// A copy is made in operations of at most so many bytes, and at least so many of them. Holders that carry nothing see only
// the operations' headers: these must come often enough that the holders do not take their neighbours for stuck.
constexpr size_t kPartBytes = 16 << 20;
constexpr size_t kPartsMin = 4;

uint64_t hash_of(std::span<const std::byte> piece) {
  return storage::checksum_64(piece);
}

// Layout, little-endian: number (u32), then of each piece its XXH3-64 (u64); of marks: one byte each, 0 or 1.
std::vector<std::byte> encode_hashes(std::span<const std::span<std::byte>> pieces) {
  WireWriter out;
  out.put(static_cast<uint32_t>(pieces.size()));
  for (const auto piece : pieces) out.put(hash_of(piece));
  return out.take();
}

tl::expected<Hashes, RunStop> decode_hashes(std::span<const std::byte> bytes, size_t count, int rank) {
  WireReader in(bytes);
  const auto told = in.get<uint32_t>();
  Hashes hashes;
  for (size_t i = 0; i < count && told == count; ++i) hashes.push_back(in.get<uint64_t>());
  if (told != count || !in.done()) {
    return tl::unexpected(state_mismatch("rank " + std::to_string(rank) + " has a state of " + std::to_string(told) +
                                             " pieces, here it has " + std::to_string(count),
                                         rank));
  }
  return hashes;
}

class Copying {
 public:
  Copying(Communicator& ring, std::span<const std::span<std::byte>> pieces, const std::vector<bool>& holds)
      : ring_(ring), pieces_(pieces), holds_(holds), me_(static_cast<size_t>(ring.rank())) {}

  RunResult<PieceCopy> run() {
    if (auto told = learn_hashes(); !told) return tl::unexpected(told.error());
    auto wants = share(lacking());
    if (!wants) return tl::unexpected(wants.error());
    if (!holds_[me_]) count_what_is_here((*wants)[me_]);
    for (const Marks& marks : *wants) result_.bytes_most = std::max(result_.bytes_most, bytes_of(marks));
    for (size_t first = 0; first < pieces_.size();) {
      const size_t last = end_of_part(first);
      fault_point("state_copy", -1, ring_.rank());
      if (auto passed = pass_on(*wants, first, last); !passed) return tl::unexpected(ring_stop(passed.error()));
      first = last;
    }
    if (auto mended = mend(); !mended) return tl::unexpected(mended.error());
    return result_;
  }

 private:
  RunResult<void> learn_hashes() {
    const auto told = ring_.all_gather(holds_[me_] ? encode_hashes(pieces_) : std::vector<std::byte>());
    if (!told) return tl::unexpected(ring_stop(told.error()));
    const auto first = static_cast<size_t>(std::ranges::find(holds_, true) - holds_.begin());
    auto hashes = decode_hashes((*told)[first], pieces_.size(), static_cast<int>(first));
    if (!hashes) return tl::unexpected(hashes.error());
    hashes_ = std::move(*hashes);
    return {};
  }

  Marks lacking() const {
    Marks marks(pieces_.size());
    for (size_t i = 0; i < pieces_.size() && !holds_[me_]; ++i) marks[i] = hash_of(pieces_[i]) != hashes_[i];
    return marks;
  }

  // Every rank's marks, by rank.
  RunResult<std::vector<Marks>> share(const Marks& mine) {
    std::vector<std::byte> bytes;
    for (const bool mark : mine) bytes.push_back(std::byte{mark});
    const auto told = ring_.all_gather(bytes);
    if (!told) return tl::unexpected(ring_stop(told.error()));
    std::vector<Marks> all;
    for (size_t rank = 0; rank < told->size(); ++rank) {
      Marks marks;
      for (const std::byte mark : (*told)[rank]) marks.push_back(mark != std::byte{0});
      if (marks.size() != pieces_.size()) {
        return tl::unexpected(state_mismatch("rank " + std::to_string(rank) + " speaks of " + std::to_string(marks.size()) +
                                                 " pieces of the state, here it has " + std::to_string(pieces_.size()),
                                             static_cast<int>(rank)));
      }
      all.push_back(std::move(marks));
    }
    return all;
  }

  int64_t bytes_of(const Marks& marks) const {
    int64_t bytes = 0;
    for (size_t i = 0; i < pieces_.size(); ++i) bytes += marks[i] ? static_cast<int64_t>(pieces_[i].size()) : 0;
    return bytes;
  }

  void count_what_is_here(const Marks& wants) {
    for (size_t i = 0; i < pieces_.size(); ++i) {
      (wants[i] ? result_.bytes : result_.had_before) += static_cast<int64_t>(pieces_[i].size());
    }
  }

  size_t end_of_part(size_t first) const {
    const size_t count_max = std::max<size_t>(pieces_.size() / kPartsMin, 1);
    size_t last = first, bytes = 0;
    while (last < pieces_.size() && last - first < count_max && (last == first || bytes + pieces_[last].size() <= kPartBytes))
      bytes += pieces_[last++].size();
    return last;
  }

  // Pieces `first` to below `last`.
  CollectiveResult<void> pass_on(const std::vector<Marks>& wants, size_t first, size_t last) {
    const size_t successor = (me_ + 1) % holds_.size();
    std::vector<std::span<const std::byte>> outgoing;
    std::vector<std::span<std::byte>> incoming;
    for (size_t i = first; i < last; ++i) {
      if (wants[successor][i]) outgoing.emplace_back(pieces_[i]);
      if (wants[me_][i]) incoming.push_back(pieces_[i]);
    }
    return ring_.relay(outgoing, incoming);
  }

  // Pieces that arrived with another hash are fetched once more, from each holder in turn until they are right.
  RunResult<void> mend() {
    auto bad = bad_anywhere();
    if (!bad) return tl::unexpected(bad.error());
    for (size_t i = 0; i < bad->size(); ++i) {
      if ((*bad)[i]) result_.fetched_again.push_back(i);
    }
    // A bad piece came from the last holder before this rank. All ranks go through the holders in the same order, so each bad
    // piece also comes from another holder.
    for (size_t rank = 0; rank < holds_.size() && std::ranges::find(*bad, true) != bad->end(); ++rank) {
      if (!holds_[rank]) continue;
      if (auto sent = send_again(*bad, static_cast<int>(rank)); !sent) return tl::unexpected(ring_stop(sent.error()));
      bad = bad_anywhere();
      if (!bad) return tl::unexpected(bad.error());
    }
    if (std::ranges::find(*bad, true) == bad->end()) return {};
    const Marks mine = lacking();
    const auto piece = static_cast<size_t>(std::ranges::find(mine, true) - mine.begin());
    if (piece == mine.size()) return tl::unexpected(interrupted("another rank could not take the state"));
    RunStop stop = fault("state_diverged",
                         "piece " + std::to_string(piece) + " of " + std::to_string(pieces_.size()) +
                             " of the state is altered whichever rank it comes from: this rank's memory is not to be trusted",
                         ring_.rank());
    stop.state_is_wrong = true;
    return tl::unexpected(std::move(stop));
  }

  RunResult<Marks> bad_anywhere() {
    const auto all = share(lacking());
    if (!all) return tl::unexpected(all.error());
    Marks any(pieces_.size());
    for (const Marks& marks : *all) {
      for (size_t i = 0; i < any.size(); ++i) any[i] = any[i] || marks[i];
    }
    return any;
  }

  CollectiveResult<void> send_again(const Marks& bad, int holder) {
    std::vector<std::byte> spare;
    for (size_t i = 0; i < pieces_.size(); ++i) {
      if (!bad[i]) continue;
      const bool keeps = hash_of(pieces_[i]) == hashes_[i];
      if (keeps && ring_.rank() != holder) spare.resize(pieces_[i].size());
      const auto into = keeps && ring_.rank() != holder ? std::span(spare) : pieces_[i];
      if (auto sent = ring_.broadcast(into, holder); !sent) return sent;
    }
    return {};
  }

  Communicator& ring_;
  std::span<const std::span<std::byte>> pieces_;
  const std::vector<bool>& holds_;
  size_t me_;
  Hashes hashes_;
  PieceCopy result_;
};

}  // namespace

std::vector<std::span<std::byte>> cut_into_pieces(const model::HostState& state) {
  std::vector<std::span<std::byte>> pieces;
  for (const model::StateTensor& tensor : state.tensors()) {
    for (size_t at = 0; at < tensor.bytes; at += kPieceBytes) {
      pieces.emplace_back(tensor.data + at, std::min(kPieceBytes, tensor.bytes - at));
    }
  }
  return pieces;
}

RunResult<PieceCopy> copy_pieces(Communicator& ring, std::span<const std::span<std::byte>> pieces,
                                 const std::vector<bool>& holds) {
  return Copying(ring, pieces, holds).run();
}

}  // namespace holdfast::worker

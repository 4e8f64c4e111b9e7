#include "worker/state/divided/holdings.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <span>
#include <utility>

#include "worker/profile/span.h"
#include "worker/transport/wire_bytes.h"

namespace holdfast::worker {
namespace {

using storage::PieceDigest;

// Layout, little-endian: magic "HFC2" (u32); node (text); whether the rank's chunks count (u32, 0 or 1); whether it is a
// newcomer (u32, 0 or 1); number of pieces (u32); of each piece: whether it is held (u8, 0 or 1), and its digest (16 bytes) if
// so.
constexpr uint32_t kHoldingsMagic = 0x32434648;

struct Held {
  std::string node;
  bool counts = false, is_new = false;
  PieceDigests digests;
};

std::vector<std::byte> encode(const Held& held) {
  WireWriter out;
  out.put(kHoldingsMagic);
  out.put_text(held.node);
  out.put(uint32_t{held.counts});
  out.put(uint32_t{held.is_new});
  out.put(static_cast<uint32_t>(held.digests.size()));
  for (const auto& digest : held.digests) {
    out.put(static_cast<uint8_t>(digest.has_value()));
    if (!digest) continue;
    for (const std::byte byte : digest->bytes) out.put(std::to_integer<uint8_t>(byte));
  }
  return out.take();
}

tl::expected<Held, std::string> decode(std::span<const std::byte> bytes, size_t pieces) {
  WireReader in(bytes);
  const auto magic = in.get<uint32_t>();
  Held held;
  held.node = in.get_text();
  held.counts = in.get<uint32_t>() != 0;
  held.is_new = in.get<uint32_t>() != 0;
  const auto count = in.get<uint32_t>();
  if (magic != kHoldingsMagic) return tl::unexpected<std::string>("it is not of this version of Holdfast");
  if (count != pieces) return tl::unexpected(fmt::format("it has {} pieces, here there are {}", count, pieces));
  for (uint32_t i = 0; i < count; ++i) {
    auto& digest = held.digests.emplace_back();
    if (in.get<uint8_t>() == 0) continue;
    digest.emplace();
    for (std::byte& byte : digest->bytes) byte = std::byte{in.get<uint8_t>()};
  }
  if (!in.done()) return tl::unexpected<std::string>("it is cut short, or longer than its contents");
  return held;
}

// This rank's own. Moments that are not right are as good as none, and so are copies that have not come.
Held own_holding(const Session& session, const std::string& node, bool counts, PieceDigests digests) {
  const bool has_all_copies = std::ranges::find(session.copied, false) == session.copied.end();
  Held held{node, counts, !counts || !has_all_copies, std::move(digests)};
  const size_t chunks = session.sound.size();
  const bool copies_stay = !session.model->copies_by_layer();
  const size_t copies_at = copies_among_told(session);
  for (size_t c = 0; c < chunks; ++c) {
    if (copies_stay && !session.copied[c]) held.digests[copies_at + c] = std::nullopt;
    if (session.sound[c]) continue;
    held.digests[chunks + c] = held.digests[2 * chunks + c] = std::nullopt;
    if (session.state->copies_apart()) held.digests[c] = std::nullopt;
  }
  return held;
}

class Judging {
 public:
  Judging(std::vector<Held> held, size_t chunks, size_t copies, size_t copies_at) : held_(std::move(held)), chunks_(chunks) {
    const size_t pieces = held_.front().digests.size();
    found_.hashed = pieces - copies;
    found_.copies_at = copies_at;
    found_.right.resize(pieces);
    found_.has.assign(pieces, RankSet(held_.size()));
    for (const Held& one : held_) {
      found_.nodes.push_back(one.node);
      found_.newcomers.push_back(one.is_new);
    }
  }

  Holdings run() {
    const bool with_copies = found_.hashed < found_.right.size();
    for (size_t c = 0; c < chunks_; ++c) {
      std::vector<size_t> pieces{c, chunks_ + c, 2 * chunks_ + c};
      if (with_copies) pieces.push_back(found_.hashed + c);
      judge(pieces, c);
    }
    for (size_t piece = 3 * chunks_; piece < found_.hashed; ++piece) judge({piece}, std::nullopt);
    std::ranges::sort(found_.odd);
    const auto repeated = std::ranges::unique(found_.odd);
    found_.odd.erase(repeated.begin(), repeated.end());
    return std::move(found_);
  }

 private:
  // The pieces go together: a rank whose word counts has all of them.
  void judge(const std::vector<size_t>& pieces, std::optional<size_t> chunk) {
    std::map<std::vector<PieceDigest>, std::vector<size_t>> ranks_of;
    size_t voices = 0;
    for (size_t rank = 0; rank < held_.size(); ++rank) {
      const Held& one = held_[rank];
      if (!one.counts || !std::ranges::all_of(pieces, [&](size_t piece) { return one.digests[piece].has_value(); })) continue;
      std::vector<PieceDigest> digests;
      for (const size_t piece : pieces) digests.push_back(*one.digests[piece]);
      ranks_of[digests].push_back(rank);
      ++voices;
    }
    if (ranks_of.empty()) {
      if (chunk) found_.lost.push_back(*chunk);
      return;
    }
    const auto most = std::ranges::max_element(ranks_of, {}, [](const auto& entry) { return entry.second.size(); });
    if (ranks_of.size() > 1 && 2 * most->second.size() <= voices && !found_.differs) found_.differs = in_words(ranks_of, chunk);
    for (const auto& [digests, ranks] : ranks_of) {
      if (&digests != &most->first) found_.odd.insert(found_.odd.end(), ranks.begin(), ranks.end());
    }
    for (size_t i = 0; i < pieces.size(); ++i) mark(pieces[i], most->first[i]);
  }

  void mark(size_t piece, const PieceDigest& right) {
    found_.right[piece] = right;
    for (size_t rank = 0; rank < held_.size(); ++rank) {
      const auto& digest = held_[rank].digests[piece];
      found_.has[piece][rank] = digest == right;
      if (held_[rank].counts && digest && *digest != right) found_.odd.push_back(static_cast<int>(rank));
    }
  }

  static std::string in_words(const std::map<std::vector<PieceDigest>, std::vector<size_t>>& ranks_of,
                              std::optional<size_t> chunk) {
    const auto first = ranks_of.begin(), second = std::next(first);
    return fmt::format("{} is another one at rank {} than at rank {}, and no more than half agree",
                       chunk ? fmt::format("chunk {} of the state", *chunk) : "what belongs to no chunk",
                       second->second.front(), first->second.front());
  }

  std::vector<Held> held_;
  size_t chunks_;
  Holdings found_;
};

}  // namespace

RunResult<Holdings> gather_holdings(Communicator& ring, const Session& session, const std::string& node, bool counts,
                                    PieceDigests digests) {
  const Span span(SpanKind::kOther, "compare pieces of the state");
  const Held mine = own_holding(session, node, counts, std::move(digests));
  const auto gathered = ring.all_gather(encode(mine));
  if (!gathered) return tl::unexpected(ring_stop(gathered.error()));
  std::vector<Held> all;
  for (size_t rank = 0; rank < gathered->size(); ++rank) {
    auto held = decode((*gathered)[rank], mine.digests.size());
    if (!held) {
      return tl::unexpected(
          fault("handshake_failed",
                fmt::format("rank {} told what it holds of the state in a way that cannot be read: {}", rank, held.error()),
                static_cast<int>(rank)));
    }
    all.push_back(std::move(*held));
  }
  const size_t chunks = session.sound.size();
  return Judging(std::move(all), chunks, session.state->copies_stay() ? chunks : 0, copies_among_told(session)).run();
}

std::vector<model::StatePiece> told_pieces(const Session& session) {
  auto pieces = session.state->pieces();
  if (!session.state->copies_stay()) return pieces;
  const auto copies = session.state->copies();
  pieces.insert(pieces.end(), copies.begin(), copies.end());
  return pieces;
}

size_t copies_among_told(const Session& session) {
  return session.state->copies_stay() ? session.state->pieces().size() : 0;
}

PieceDigests digests_of_told(const Session& session) {
  return session.state->digests(told_pieces(session));
}

PieceDigests digests_of_told(const Session& session, PieceDigests before, const std::vector<bool>& came) {
  auto here = told_pieces(session);
  for (size_t piece = 0; piece < here.size(); ++piece) {
    if (here[piece].data == nullptr) before[piece] = std::nullopt;
    if (!came[piece]) here[piece].data = nullptr;
  }
  const auto now = session.state->digests(here);
  for (size_t piece = 0; piece < now.size(); ++piece) {
    if (came[piece]) before[piece] = now[piece];
  }
  return before;
}

}  // namespace holdfast::worker

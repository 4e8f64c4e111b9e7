#include "worker/state/divided/holdings.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <utility>

#include "worker/profile/span.h"
#include "worker/transport/wire_bytes.h"

namespace holdfast::worker {
namespace {

// Layout, little-endian: magic "HFC2" (u32); node (text); whether the rank's chunks count (u32, 0 or 1); whether it is a
// newcomer (u32, 0 or 1); number of pieces (u32); of each piece: whether it is held (u8, 0 or 1), and its digest (16 bytes) if
// so.
constexpr uint32_t kHoldingsMagic = 0x32434648;

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
  const auto copies_at = kinds_of_told(session).copies_at;
  for (size_t c = 0; c < chunks; ++c) {
    if (copies_at && !session.copied[c]) held.digests[*copies_at + c] = std::nullopt;
    if (session.sound[c]) continue;
    held.digests[chunks + c] = held.digests[2 * chunks + c] = std::nullopt;
    if (session.state->copies_apart()) held.digests[c] = std::nullopt;
  }
  return held;
}

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
  return judge_holdings(std::move(all), kinds_of_told(session));
}

std::vector<model::StatePiece> told_pieces(const Session& session) {
  auto pieces = session.state->pieces();
  if (!session.state->copies_stay()) return pieces;
  const auto copies = session.state->copies();
  pieces.insert(pieces.end(), copies.begin(), copies.end());
  return pieces;
}

PieceKinds kinds_of_told(const Session& session) {
  PieceKinds pieces{session.sound.size(), session.state->pieces().size(), std::nullopt};
  if (!session.model->copies_by_layer()) pieces.copies_at = session.state->copies_stay() ? pieces.hashed : 0;
  return pieces;
}

PieceDigests digests_of_told(const Session& session, const Session::Digested& early) {
  auto here = told_pieces(session);
  const auto copies_at = kinds_of_told(session).copies_at;
  const size_t chunks = session.sound.size();
  for (size_t c = 0; c < chunks; ++c) {
    if (!session.sound[c]) here[chunks + c].data = here[2 * chunks + c].data = nullptr;
    if (!session.sound[c] && session.state->copies_apart()) here[c].data = nullptr;
    if (copies_at && !session.copied[c]) here[*copies_at + c].data = nullptr;
  }
  if (early.step != session.state->step) return session.state->digests(here);
  std::vector<size_t> known;
  for (size_t piece = 0; piece < std::min(here.size(), early.digests.size()); ++piece) {
    if (here[piece].data == nullptr || !early.digests[piece]) continue;
    known.push_back(piece);
    here[piece].data = nullptr;
  }
  PieceDigests all = session.state->digests(here);
  for (const size_t piece : known) all[piece] = early.digests[piece];
  return all;
}

PieceDigests digests_of_told(const Session& session) {
  return digests_of_told(session, {});
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

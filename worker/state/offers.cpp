#include "worker/state/offers.h"

#include <algorithm>
#include <bit>
#include <map>

#include "worker/transport/wire_bytes.h"

namespace holdfast::worker {
namespace {

// Layout, little-endian: magic "HFS4" (u32), step (i64), -1 for none; hash (text); step whose gradient is still there (i64);
// step whose gradient is there of what the rank owns (i64), and its norm (f64); steps refused in a row (i64); whether the last
// one was refused (u32, 0 or 1); unconfirmed steps (text: encode_points).
constexpr uint32_t kStateMagic = 0x34534648;

std::vector<std::byte> encode(const Offer& offer) {
  const auto points = encode_points(offer.unconfirmed);
  WireWriter out;
  out.put(kStateMagic);
  out.put_i64(offer.step);
  out.put_text(offer.hash);
  out.put_i64(offer.applied_step);
  out.put_i64(offer.summed_step);
  out.put(std::bit_cast<uint64_t>(offer.norm));
  out.put_i64(offer.refused_in_row);
  out.put(uint32_t{offer.refused_last});
  out.put_text(std::string(reinterpret_cast<const char*>(points.data()), points.size()));
  return out.take();
}

tl::expected<Offer, std::string> decode(std::span<const std::byte> bytes) {
  WireReader in(bytes);
  const auto magic = in.get<uint32_t>();
  Offer offer;
  offer.step = in.get_i64();
  offer.hash = in.get_text();
  offer.applied_step = in.get_i64();
  offer.summed_step = in.get_i64();
  offer.norm = std::bit_cast<double>(in.get<uint64_t>());
  offer.refused_in_row = in.get_i64();
  offer.refused_last = in.get<uint32_t>() != 0;
  const std::string points = in.get_text();
  if (magic != kStateMagic || !in.done()) return tl::unexpected<std::string>("it is not of this version of Holdfast");
  auto decoded = decode_points(std::as_bytes(std::span(points)));
  if (!decoded) return tl::unexpected(decoded.error());
  offer.unconfirmed = std::move(*decoded);
  return offer;
}

}  // namespace

Offer offer_of(const Session& session, const StepHistory& history) {
  return {.step = session.held_step(),
          .hash = {},
          .applied_step = session.applied_step,
          .refused_in_row = session.refused_in_row,
          .summed_step = session.summed.step,
          .norm = session.summed.norm,
          .refused_last = session.refused_last,
          .unconfirmed = {history.points().begin(), history.points().end()}};
}

RunResult<std::vector<Offer>> gather_offers(Communicator& ring, const Offer& mine) {
  auto gathered = ring.all_gather(encode(mine));
  if (!gathered) return tl::unexpected(ring_stop(gathered.error()));
  std::vector<Offer> offers;
  for (size_t rank = 0; rank < gathered->size(); ++rank) {
    auto offer = decode((*gathered)[rank]);
    if (!offer) {
      return tl::unexpected(
          fault("handshake_failed",
                "rank " + std::to_string(rank) + " described its state in a way that cannot be read: " + offer.error(),
                static_cast<int>(rank)));
    }
    offers.push_back(std::move(*offer));
  }
  return offers;
}

void merge_history(const std::vector<Offer>& offers, int64_t step, StepHistory& history) {
  std::map<int64_t, rendezvous::StepPoint> merged;
  for (const Offer& offer : offers) {
    for (const auto& point : offer.unconfirmed) {
      if (point.step <= step) merged.try_emplace(point.step, point);
    }
  }
  const int64_t before = merged.empty() ? step : merged.begin()->first - 1;
  const int64_t acknowledged = std::min({history.acknowledged(), step, before});
  history.clear();
  history.acknowledge(acknowledged);
  for (auto& [_, point] : merged) history.add(point);
}

std::string steps_held(const std::vector<Offer>& offers) {
  std::string text;
  for (const Offer& offer : offers) text += (text.empty() ? "" : ", ") + (offer.step < 0 ? "none" : std::to_string(offer.step));
  return text;
}

}  // namespace holdfast::worker

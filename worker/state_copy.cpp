#include "worker/state_copy.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <optional>
#include <vector>

#include "worker/fault_points.h"
#include "worker/wire_bytes.h"

namespace holdfast::worker {
namespace {

// Layout, little-endian: magic "HFS1" (u32), step (i64), -1 for none; hash (text); unconfirmed steps (text: encode_points).
constexpr uint32_t kMagic = 0x31534648;
constexpr size_t kPieceBytes = 4 << 20;

struct Offer {
  int64_t step = -1;
  std::string hash;
  std::vector<rendezvous::StepPoint> unconfirmed;
};

std::vector<std::byte> encode(const Offer& offer) {
  const auto points = encode_points(offer.unconfirmed);
  WireWriter out;
  out.put(kMagic);
  out.put_i64(offer.step);
  out.put_text(offer.hash);
  out.put_text(std::string(reinterpret_cast<const char*>(points.data()), points.size()));
  return out.take();
}

tl::expected<Offer, std::string> decode(std::span<const std::byte> bytes) {
  WireReader in(bytes);
  const auto magic = in.get<uint32_t>();
  Offer offer;
  offer.step = in.get_i64();
  offer.hash = in.get_text();
  const std::string points = in.get_text();
  if (magic != kMagic || !in.done()) return tl::unexpected<std::string>("it is not of this version of Holdfast");
  auto decoded = decode_points(std::as_bytes(std::span(points)));
  if (!decoded) return tl::unexpected(decoded.error());
  offer.unconfirmed = std::move(*decoded);
  return offer;
}

RunResult<std::vector<Offer>> gather_offers(Communicator& ring, const Offer& mine) {
  auto gathered = ring.all_gather(encode(mine));
  if (!gathered) return tl::unexpected(ring_stop(gathered.error()));
  std::vector<Offer> offers;
  for (size_t rank = 0; rank < gathered->size(); ++rank) {
    auto offer = decode((*gathered)[rank]);
    if (!offer) {
      return tl::unexpected(
          fault("state_mismatch",
                "rank " + std::to_string(rank) + " described its state in a way that cannot be read: " + offer.error(),
                static_cast<int>(rank)));
    }
    offers.push_back(std::move(*offer));
  }
  return offers;
}

// Every step at or below the donor's that anybody has not seen confirmed, once: points of a step are the same on all ranks.
void merge_history(const std::vector<Offer>& offers, int64_t step, StepHistory& history) {
  std::map<int64_t, rendezvous::StepPoint> merged;
  for (const Offer& offer : offers) {
    for (const auto& point : offer.unconfirmed) {
      if (point.step <= step) merged.try_emplace(point.step, point);
    }
  }
  const int64_t acknowledged = std::min(history.acknowledged(), step);
  history.clear();
  history.acknowledge(acknowledged);
  for (auto& [_, point] : merged) history.add(point);
}

// Passes the donor's tensors on; who `keeps` its own bytes reads into a spare piece.
RunResult<int64_t> pass_state(Communicator& ring, Session& session, int donor, bool keeps) {
  std::vector<std::byte> spare(keeps && ring.rank() != donor ? kPieceBytes : 0);
  int64_t bytes = 0;
  for (const model::StateTensor& tensor : session.state->tensors()) {
    for (size_t at = 0; at < tensor.bytes; at += kPieceBytes) {
      const size_t size = std::min(kPieceBytes, tensor.bytes - at);
      fault_point("state_copy", session.held_step(), ring.rank());
      const std::span<std::byte> piece = spare.empty() ? std::span(tensor.data + at, size) : std::span(spare).first(size);
      if (auto passed = ring.broadcast(piece, donor); !passed) return tl::unexpected(ring_stop(passed.error()));
      bytes += static_cast<int64_t>(size);
    }
  }
  return bytes;
}

RunResult<void> take_state(Session& session, const Offer& source, int donor) {
  session.state->step = source.step;
  session.state->bytes_changed();
  const std::string hash = session.state->hash();
  if (hash != source.hash) {
    return tl::unexpected(fault("state_mismatch",
                                "the state of step " + std::to_string(source.step) + " copied from rank " +
                                    std::to_string(donor) + " hashes to " + hash + ", there it is " + source.hash,
                                donor));
  }
  session.has_state = true;
  return {};
}

std::string steps_held(const std::vector<Offer>& offers) {
  std::string text;
  for (const Offer& offer : offers) text += (text.empty() ? "" : ", ") + (offer.step < 0 ? "none" : std::to_string(offer.step));
  return text;
}

// The rank whose state all take: the first that holds it. With the exact reduction a step has one state: two that hold
// different ones mean that one has gone wrong, and nobody here can tell which.
RunResult<size_t> find_donor(const std::vector<Offer>& offers, const rendezvous::StateSource& source, int64_t wanted_step,
                             bool exact) {
  const bool from_memory = source.kind == rendezvous::StateSource::Kind::kMemory;
  std::optional<size_t> donor;
  for (size_t rank = 0; rank < offers.size(); ++rank) {
    if (offers[rank].step != wanted_step || (!source.state_hash.empty() && offers[rank].hash != source.state_hash)) continue;
    if (!donor) donor = rank;
    if (exact && from_memory && offers[rank].hash != offers[*donor].hash) {
      return tl::unexpected(fault("state_mismatch", "after step " + std::to_string(wanted_step) + " rank " +
                                                        std::to_string(*donor) + " holds the state " + offers[*donor].hash +
                                                        " and rank " + std::to_string(rank) + " " + offers[rank].hash));
    }
  }
  if (donor) return *donor;
  return tl::unexpected(fault("state_mismatch", "no rank holds the state of step " + std::to_string(wanted_step) +
                                                    "; by rank they hold: " + steps_held(offers)));
}

}  // namespace

RunResult<StateCopy> agree_on_state(Communicator& ring, Session& session, const rendezvous::StateSource& source,
                                    int64_t wanted_step, StepHistory& history) {
  const auto begin = std::chrono::steady_clock::now();
  Offer mine{.step = session.held_step(), .hash = {}, .unconfirmed = {history.points().begin(), history.points().end()}};
  if (session.has_state) mine.hash = session.state->hash();
  auto offers = gather_offers(ring, mine);
  if (!offers) return tl::unexpected(offers.error());

  const auto donor = find_donor(*offers, source, wanted_step, session.gradients->exact());
  if (!donor) return tl::unexpected(donor.error());
  const Offer& found = (*offers)[*donor];
  const auto differs = [&](const Offer& offer) { return offer.step != found.step || offer.hash != found.hash; };
  StateCopy copy{.step = wanted_step, .hash = found.hash, .donor = static_cast<int>(*donor)};
  copy.receivers = static_cast<int>(std::count_if(offers->begin(), offers->end(), differs));
  copy.received = differs(mine);
  if (copy.receivers > 0) {
    if (copy.received) session.has_state = false;
    auto passed = pass_state(ring, session, copy.donor, !copy.received);
    if (!passed) return tl::unexpected(passed.error());
    copy.bytes = *passed;
    if (copy.received) {
      if (auto taken = take_state(session, found, copy.donor); !taken) return tl::unexpected(taken.error());
    }
  }
  merge_history(*offers, wanted_step, history);
  copy.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return copy;
}

}  // namespace holdfast::worker

#include "worker/collectives/hierarchical_reduce.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <utility>

#include "worker/collectives/forming.h"
#include "worker/collectives/handshake.h"
#include "worker/transport/wire_bytes.h"

namespace holdfast::worker {
namespace {

// A piece that no other node waits for is best in the processors' caches: 4 of the ring's chunks are 1 MiB. A piece that goes
// round a ring must be long (8 MiB) beside that ring's latency, which is 2 (M-1) chunks of its own (128 KiB).
constexpr size_t kChunksOfAPiece = 4, kChunksOfACarriedPiece = 32, kCarriedChunksOfAChunk = 2;

constexpr size_t kMemoryMax = size_t{256} << 20;  // of a node
constexpr std::chrono::milliseconds kBetweenFormsWithin{2000};

// The same on all nodes: the one with the most ranks decides.
size_t piece_bytes_of(size_t chunk_bytes, const Groups& groups) {
  constexpr size_t kPage = 4096;
  const bool carried = groups.size() > 1;
  const size_t seats = std::ranges::max(groups, {}, &std::vector<int>::size).size();
  const size_t wanted = chunk_bytes * (carried ? kChunksOfACarriedPiece : kChunksOfAPiece);
  const size_t room = kMemoryMax / MemorySums::memory_bytes(seats, kPage, carried) * kPage;
  return (std::min(wanted, room) + kPage - 1) / kPage * kPage;
}

std::vector<std::byte> encode(const tl::expected<SharedMemory, std::string>& made) {
  WireWriter out;
  out.put_text(made ? "" : made.error());
  const SharedMemory::Offer offer = made ? made->offer() : SharedMemory::Offer{};
  for (const uint64_t number : {offer.process, offer.descriptor, offer.bytes, offer.proof}) out.put(number);
  return out.take();
}

tl::expected<SharedMemory::Offer, std::string> decode_offer(std::span<const std::byte> bytes) {
  WireReader in(bytes);
  if (std::string error = in.get_text(); !error.empty()) return tl::unexpected(std::move(error));
  SharedMemory::Offer offer;
  for (uint64_t* const number : {&offer.process, &offer.descriptor, &offer.bytes, &offer.proof}) *number = in.get<uint64_t>();
  if (!in.done()) return tl::unexpected<std::string>("what a leader says of its memory is cut short");
  return offer;
}

// The first rank's with any, "rank 3: …"; "": no rank has any. The same on all ranks.
CollectiveResult<std::string> first_trouble(Communicator& flat, const std::string& trouble) {
  WireWriter word;
  word.put_text(trouble);
  const auto words = flat.all_gather(word.take());
  if (!words) return tl::make_unexpected(words.error());
  for (size_t rank = 0; rank < words->size(); ++rank) {
    if (const std::string theirs = WireReader((*words)[rank]).get_text(); !theirs.empty())
      return "rank " + std::to_string(rank) + ": " + theirs;
  }
  return "";
}

// This rank's place: in which group, and where in it.
struct Place {
  size_t group = 0, seat = 0;
};
Place place_of(int rank, const Groups& groups) {
  for (size_t group = 0; group < groups.size(); ++group) {
    const auto found = std::ranges::find(groups[group], rank);
    if (found != groups[group].end()) return {group, static_cast<size_t>(found - groups[group].begin())};
  }
  return {};
}

}  // namespace

Groups group_by_node(std::span<const std::string> node_of_rank) {
  Groups groups;
  std::map<std::string, size_t> group_of;
  for (size_t rank = 0; rank < node_of_rank.size(); ++rank) {
    const std::string& node = node_of_rank[rank];
    const auto known = node.empty() ? group_of.end() : group_of.find(node);
    if (known == group_of.end()) {
      if (!node.empty()) group_of[node] = groups.size();
      groups.push_back({static_cast<int>(rank)});
    } else {
      groups[known->second].push_back(static_cast<int>(rank));
    }
  }
  return groups;
}

CollectiveResult<std::unique_ptr<HierarchicalReduce>> HierarchicalReduce::form(Transport& transport, Communicator& flat,
                                                                               Ring& ring, const RingOptions& options,
                                                                               const Groups& groups, OwnDevices devices,
                                                                               const std::stop_token& stop,
                                                                               std::string& refused) {
  const Place place = place_of(options.rank, groups);
  const std::vector<int>& own = groups[place.group];
  const bool carried = groups.size() > 1;
  const size_t piece_bytes = piece_bytes_of(options.chunk_bytes, groups);

  tl::expected<SharedMemory, std::string> memory = tl::unexpected<std::string>("");
  if (place.seat == 0) memory = SharedMemory::make(MemorySums::memory_bytes(own.size(), piece_bytes, carried));
  const auto offers = flat.all_gather(place.seat == 0 ? encode(memory) : std::vector<std::byte>{});
  if (!offers) return tl::make_unexpected(offers.error());
  if (place.seat != 0) {
    const auto offer = decode_offer((*offers)[static_cast<size_t>(own.front())]);
    memory = offer ? SharedMemory::open(*offer) : tl::unexpected(offer.error());
  }
  const auto without_memory = first_trouble(flat, memory ? "" : memory.error());
  if (!without_memory) return tl::make_unexpected(without_memory.error());
  refused = *without_memory;
  if (!refused.empty()) return nullptr;

  std::unique_ptr<Ring> between;
  if (carried) {
    std::string trouble;
    if (place.seat == 0) {
      auto formed = form_between(transport, ring, options, groups, stop);
      if (!formed && formed.error().kind == CollectiveError::Kind::kAborted) return tl::make_unexpected(formed.error());
      if (formed) between = std::move(*formed);
      if (!formed) trouble = formed.error().detail;
    }
    // Where two leaders do not reach each other the ring of all ranks is the better one: that was formed.
    const auto apart = first_trouble(flat, trouble);
    if (!apart) return tl::make_unexpected(apart.error());
    refused = *apart;
    if (!refused.empty()) return nullptr;
  }
  memory->close_offer();

  std::unique_ptr<HierarchicalReduce> formed(new HierarchicalReduce(*std::move(memory), std::move(between)));
  const auto bytes = formed->memory_.bytes();
  formed->seats_ = std::make_unique<Seats>(bytes, own, place.seat, ring);
  formed->sums_ = std::make_unique<MemorySums>(bytes, *formed->seats_, piece_bytes, carried);
  formed->devices_ = std::make_unique<DeviceReduce>(*formed->seats_, std::move(devices), piece_bytes, carried);
  formed->nodes_ = static_cast<int>(groups.size());
  formed->place_ = static_cast<int>(place.group);
  if (formed->between_) formed->between_->count_in(formed->seats_->bytes_between());
  return formed;
}

CollectiveResult<std::unique_ptr<Ring>> HierarchicalReduce::form_between(Transport& transport, const Ring& ring,
                                                                         const RingOptions& options, const Groups& groups,
                                                                         const std::stop_token& stop) {
  // All ranks are there and wait, so this takes a moment, or does not come about.
  const Deadline deadline = std::chrono::steady_clock::now() + std::min(options.form_timeout, kBetweenFormsWithin);
  std::vector<int> leaders;
  for (const auto& group : groups) leaders.push_back(group.front());
  const size_t place = place_of(options.rank, groups).group;
  const RingPlace among{options.job + " between nodes",   options.generation, static_cast<int>(place),
                        static_cast<int>(leaders.size()), options.secret,     options.encrypted};
  const int next = leaders[static_cast<size_t>(among.successor())];
  auto connections = form_ring(transport, among, options.addresses[static_cast<size_t>(next)], deadline, stop);
  if (!connections) {
    CollectiveError error = connections.error();
    error.detail = "no ring of the first ranks of all nodes: " + error.detail;
    return tl::make_unexpected(std::move(error));
  }
  RingOptions chunks = options;
  chunks.chunk_bytes = std::max<size_t>(1, options.chunk_bytes / kCarriedChunksOfAChunk);
  auto between = std::make_unique<Ring>(transport, std::move(*connections), chunks, leaders, place);
  between->set_limits(ring.limits());
  return between;
}

CollectiveResult<void> HierarchicalReduce::run(std::span<const std::byte> mine, std::span<std::byte> sum, Element element) {
  return then_choose(sums_->run(mine, sum, element, carry(element)));
}

CollectiveResult<void> HierarchicalReduce::run(const DeviceMemory& memory) {
  const bool integers = memory.element == kernels::DeviceSums::Element::kInt32;
  return then_choose(devices_->run(memory, carry(integers ? Element::kInt32 : Element::kFloat)));
}

CollectiveResult<void> HierarchicalReduce::then_choose(CollectiveResult<void> done) {
  if (!done && between_) between_->fail(done.error());  // the other leaders notice at once
  devices_->choose_next();
  return done;
}

Carry HierarchicalReduce::carry(Element element) {
  return [this, element](std::span<const std::byte> of_node, std::span<std::byte> total) {
    return carry(of_node, total, element);
  };
}

CollectiveResult<void> HierarchicalReduce::carry(std::span<const std::byte> sum, std::span<std::byte> total, Element element) {
  return between_->run({.kind = Operation::Kind::kAllReduce, .element = element, .bytes = total.size()},
                       all_reduce_schedule(place_, nodes_, sum, total, element, between_->chunk_bytes()));
}

void HierarchicalReduce::set_limits(const WaitLimits& limits) {
  if (between_) between_->set_limits(limits);
}

void HierarchicalReduce::abort(const std::string& reason) {
  if (between_) between_->abort(reason);
  seats_->wake();
}

}  // namespace holdfast::worker

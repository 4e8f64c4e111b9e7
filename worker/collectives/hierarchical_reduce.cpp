#include "worker/collectives/hierarchical_reduce.h"

#include <algorithm>
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

size_t piece_bytes_of(size_t chunk_bytes, bool carried) {
  constexpr size_t kPage = 4096;
  return (chunk_bytes * (carried ? kChunksOfACarriedPiece : kChunksOfAPiece) + kPage - 1) / kPage * kPage;
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

// This rank's place: in which group, and where in it.
struct Place {
  size_t group = 0, seat = 0;
};
Place place_of(int rank, const std::vector<std::vector<int>>& groups) {
  for (size_t group = 0; group < groups.size(); ++group) {
    const auto found = std::ranges::find(groups[group], rank);
    if (found != groups[group].end()) return {group, static_cast<size_t>(found - groups[group].begin())};
  }
  return {};
}

}  // namespace

std::vector<std::vector<int>> group_by_node(std::span<const std::string> node_of_rank) {
  std::vector<std::vector<int>> groups;
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
                                                                               const std::vector<std::vector<int>>& groups,
                                                                               Deadline deadline, const std::stop_token& stop,
                                                                               std::string& refused) {
  const Place place = place_of(options.rank, groups);
  const std::vector<int>& own = groups[place.group];
  const bool carried = groups.size() > 1;
  const size_t piece_bytes = piece_bytes_of(options.chunk_bytes, carried);

  // Leaders make the memory, and the others open it; then all know whether all have it.
  tl::expected<SharedMemory, std::string> memory = tl::unexpected<std::string>("");
  if (place.seat == 0) memory = SharedMemory::make(NodeSums::memory_bytes(own.size(), piece_bytes, carried));
  const auto offers = flat.all_gather(place.seat == 0 ? encode(memory) : std::vector<std::byte>{});
  if (!offers) return tl::make_unexpected(offers.error());
  if (place.seat != 0) {
    const auto offer = decode_offer((*offers)[static_cast<size_t>(own.front())]);
    memory = offer ? SharedMemory::open(*offer) : tl::unexpected(offer.error());
  }
  WireWriter word;
  word.put_text(memory ? "" : memory.error());
  const auto words = flat.all_gather(word.take());
  if (!words) return tl::make_unexpected(words.error());
  for (size_t rank = 0; rank < words->size() && refused.empty(); ++rank) {
    if (std::string error = WireReader((*words)[rank]).get_text(); !error.empty())
      refused = "rank " + std::to_string(rank) + ": " + error;
  }
  if (!refused.empty()) return nullptr;
  memory->close_offer();

  std::unique_ptr<HierarchicalReduce> formed(new HierarchicalReduce(std::move(*memory), ring));
  formed->node_ = std::make_unique<NodeSums>(formed->memory_.bytes(), own, place.seat, piece_bytes, carried, ring);
  formed->nodes_ = static_cast<int>(groups.size());
  formed->place_ = static_cast<int>(place.group);
  if (!carried || place.seat != 0) return formed;

  std::vector<int> leaders;
  for (const auto& group : groups) leaders.push_back(group.front());
  const RingPlace among{options.job + " between nodes", options.generation, formed->place_, formed->nodes_, options.secret};
  const int next = leaders[static_cast<size_t>(among.successor())];
  auto connections = form_ring(transport, among, options.addresses[static_cast<size_t>(next)], deadline, stop);
  if (!connections) {
    CollectiveError error = connections.error();
    if (error.suspect_rank >= 0) error.suspect_rank = leaders[static_cast<size_t>(error.suspect_rank)];
    error.detail = "the ring between nodes, of the first rank of each: " + error.detail;
    ring.fail(error);
    return tl::make_unexpected(std::move(error));
  }
  RingOptions chunks = options;
  chunks.chunk_bytes = std::max<size_t>(1, options.chunk_bytes / kCarriedChunksOfAChunk);
  formed->between_ = std::make_unique<Ring>(transport, std::move(*connections), chunks, leaders, place.group);
  formed->between_->count_in(formed->node_->bytes_between());
  return formed;
}

CollectiveResult<void> HierarchicalReduce::run(std::span<const std::byte> mine, std::span<std::byte> sum, Element element) {
  return node_->run(mine, sum, element, [this, element](std::span<const std::byte> of_node, std::span<std::byte> total) {
    return carry(of_node, total, element);
  });
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
  node_->wake();
}

}  // namespace holdfast::worker

// The collectives as schedules for the ring; a world of one has no ring.
#include "worker/collectives/communicator.h"

#include <algorithm>
#include <atomic>
#include <numeric>
#include <stdexcept>
#include <utility>

#include "storage/checksum.h"
#include "worker/collectives/forming.h"
#include "worker/collectives/handshake.h"
#include "worker/collectives/hierarchical_reduce.h"
#include "worker/collectives/ring.h"
#include "worker/collectives/schedule.h"
#include "worker/profile/span.h"

namespace holdfast::worker {
namespace {

constexpr uint64_t kGatheredMax = uint64_t{1} << 30;  // of one rank, whose size the others take its word for

}  // namespace

struct Communicator::Impl {
  Impl(Transport& over, RingOptions with) : transport(over), options(std::move(with)) {}

  Transport& transport;
  RingOptions options;
  std::unique_ptr<Ring> ring;                     // none in a world of one
  std::unique_ptr<HierarchicalReduce> hierarchy;  // where ranks share nodes
  int nodes = 0;                                  // of the hierarchy
  std::string memory_refused;
  std::atomic<HierarchicalReduce*> shown_hierarchy{nullptr};  // the same, for other threads
  std::stop_source aborted;                                   // for what is formed after the ring
  std::vector<std::byte> transit;                             // bytes that this rank passes on in an all-to-all
  int64_t gathers = 0;                                        // all-gathers so far: the same on every rank when it begins one

  int world_size() const { return static_cast<int>(options.addresses.size()); }
  CollectiveResult<void> all_reduce(std::span<const std::byte> mine, std::span<std::byte> sum, Element element);
  CollectiveResult<void> reduce_scatter(std::span<const std::byte> mine, std::span<std::byte> sum, Element element,
                                        std::span<const SumPart> parts);
};

namespace {

tl::unexpected<CollectiveError> unusable(const std::string& what) {
  return tl::make_unexpected(
      CollectiveError{CollectiveError::Kind::kHandshakeFailed, -1, "cannot form a ring: " + what, false});
}

CollectiveResult<void> check(const RingOptions& options) {
  const size_t world_size = options.addresses.size();
  if (options.rank < 0 || static_cast<size_t>(options.rank) >= world_size) {
    return unusable("rank " + std::to_string(options.rank) + " is not one of " + std::to_string(world_size) + " addresses");
  }
  if (world_size > 1 && options.secret.empty()) return unusable("the generation has no secret");
  if (options.job.size() > kJobBytesMax)
    return unusable("the job's id has more than " + std::to_string(kJobBytesMax) + " bytes");
  if (options.chunk_bytes == 0) return unusable("chunk_bytes is 0");
  return {};
}

void require_equal_sizes(const char* call, std::span<const std::byte> mine, std::span<std::byte> sum) {
  if (mine.size() == sum.size()) return;
  throw std::invalid_argument(std::string(call) + ": " + std::to_string(mine.size()) + " bytes into " +
                              std::to_string(sum.size()));
}

int32_t digest_of(std::span<const SumPart> parts) {
  std::vector<uint64_t> words;
  for (const SumPart& part : parts) {
    words.insert(words.end(), {part.first, part.count, static_cast<uint64_t>(part.end), static_cast<uint64_t>(part.further)});
  }
  return static_cast<int32_t>(storage::checksum_64(std::as_bytes(std::span(words))));
}

template <typename Byte>
uint64_t total_bytes(std::span<const std::span<Byte>> blocks) {
  uint64_t total = 0;
  for (const auto block : blocks) total += block.size();
  return total;
}

}  // namespace

Communicator::Communicator(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Communicator::~Communicator() = default;

CollectiveResult<std::unique_ptr<Communicator>> Communicator::form(Transport& transport, const RingOptions& options) {
  const Deadline deadline = std::chrono::steady_clock::now() + options.form_timeout;
  if (const auto usable = check(options); !usable) return tl::make_unexpected(usable.error());
  auto impl = std::make_unique<Impl>(transport, options);
  if (impl->world_size() > 1) {
    const RingPlace place{options.job, options.generation, options.rank, impl->world_size(), options.secret, options.encrypted};
    auto connections = form_ring(transport, place, options.addresses[place.successor()], deadline, options.stop);
    if (!connections) return tl::make_unexpected(connections.error());
    std::vector<int> ranks(options.addresses.size());
    std::iota(ranks.begin(), ranks.end(), 0);
    impl->ring = std::make_unique<Ring>(transport, std::move(*connections), options, ranks, static_cast<size_t>(options.rank));
  }
  return std::unique_ptr<Communicator>(new Communicator(std::move(impl)));
}

CollectiveResult<void> Communicator::share_memory(const std::string& node, OwnDevices devices) {
  if (!impl_->ring) return {};
  const auto nodes = all_gather(std::as_bytes(std::span(node)));
  if (!nodes) return tl::make_unexpected(nodes.error());
  std::vector<std::string> node_of_rank;
  for (const auto& bytes : *nodes) node_of_rank.emplace_back(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  const auto groups = group_by_node(node_of_rank);
  if (groups.size() == node_of_rank.size()) return {};
  auto formed = HierarchicalReduce::form(impl_->transport, *this, *impl_->ring, impl_->options, groups, std::move(devices),
                                         impl_->aborted.get_token(), impl_->memory_refused);
  if (!formed) return tl::make_unexpected(formed.error());
  impl_->hierarchy = std::move(*formed);
  if (!impl_->hierarchy) return {};
  impl_->nodes = static_cast<int>(groups.size());
  impl_->shown_hierarchy = impl_->hierarchy.get();
  if (impl_->aborted.stop_requested()) impl_->hierarchy->abort("the ring was aborted");
  return {};
}

int Communicator::rank() const {
  return impl_->options.rank;
}
int Communicator::world_size() const {
  return impl_->world_size();
}
std::string Communicator::encryption() const {
  return impl_->ring ? impl_->ring->encryption() : "";
}
int Communicator::nodes() const {
  return impl_->nodes;
}
const std::string& Communicator::memory_refused() const {
  return impl_->memory_refused;
}

CollectiveResult<void> Communicator::Impl::all_reduce(std::span<const std::byte> mine, std::span<std::byte> sum,
                                                      Element element) {
  require_equal_sizes("all_reduce_sum", mine, sum);
  if (!ring) {
    std::ranges::copy(mine, sum.begin());
    return {};
  }
  const Span span(SpanKind::kRing, "all-reduce");
  if (hierarchy) return hierarchy->run(mine, sum, element);
  return ring->run({.kind = Operation::Kind::kAllReduce, .element = element, .bytes = sum.size()},
                   all_reduce_schedule(options.rank, world_size(), mine, sum, element, options.chunk_bytes));
}

CollectiveResult<void> Communicator::Impl::reduce_scatter(std::span<const std::byte> mine, std::span<std::byte> sum,
                                                          Element element, std::span<const SumPart> parts) {
  require_equal_sizes("reduce_scatter_sum", mine, sum);
  if (!ring) {
    std::ranges::copy(mine, sum.begin());
    return {};
  }
  const Span span(SpanKind::kRing, "reduce-scatter");
  return ring->run({.kind = Operation::Kind::kReduceScatter, .element = element, .root = digest_of(parts), .bytes = sum.size()},
                   reduce_scatter_schedule(options.rank, world_size(), mine, sum, element, parts, options.chunk_bytes));
}

CollectiveResult<void> Communicator::all_reduce_sum(std::span<const int32_t> mine, std::span<int32_t> sum) {
  return impl_->all_reduce(std::as_bytes(mine), std::as_writable_bytes(sum), Element::kInt32);
}

CollectiveResult<void> Communicator::all_reduce_sum(std::span<const int16_t> mine, std::span<int16_t> sum) {
  return impl_->all_reduce(std::as_bytes(mine), std::as_writable_bytes(sum), Element::kInt16);
}

CollectiveResult<void> Communicator::all_reduce_sum(std::span<const float> mine, std::span<float> sum) {
  return impl_->all_reduce(std::as_bytes(mine), std::as_writable_bytes(sum), Element::kFloat);
}

CollectiveResult<void> Communicator::all_reduce_sum(std::span<const BFloat16> mine, std::span<BFloat16> sum) {
  return impl_->all_reduce(std::as_bytes(mine), std::as_writable_bytes(sum), Element::kBFloat16);
}

CollectiveResult<void> Communicator::all_reduce_sum(std::span<const Float16> mine, std::span<Float16> sum) {
  return impl_->all_reduce(std::as_bytes(mine), std::as_writable_bytes(sum), Element::kFloat16);
}

CollectiveResult<void> Communicator::reduce_scatter_sum(std::span<const int32_t> mine, std::span<int32_t> sum,
                                                        std::span<const SumPart> parts) {
  return impl_->reduce_scatter(std::as_bytes(mine), std::as_writable_bytes(sum), Element::kInt32, parts);
}

CollectiveResult<void> Communicator::reduce_scatter_sum(std::span<const int16_t> mine, std::span<int16_t> sum,
                                                        std::span<const SumPart> parts) {
  return impl_->reduce_scatter(std::as_bytes(mine), std::as_writable_bytes(sum), Element::kInt16, parts);
}

bool Communicator::sums_on_devices() const {
  return impl_->hierarchy && impl_->hierarchy->devices().is_on();
}

kernels::DeviceSums::Moment Communicator::queued_on_device() {
  return impl_->hierarchy->devices().queued();
}

CollectiveResult<void> Communicator::all_reduce_sum(const DeviceMemory& memory) {
  const Span span(SpanKind::kRing, "all-reduce between devices");
  return impl_->hierarchy->run(memory);
}

CollectiveResult<std::vector<std::vector<std::byte>>> Communicator::all_gather(std::span<const std::byte> mine) {
  const Span span(SpanKind::kGather, "all-gather", impl_->gathers++);
  const int rank = impl_->options.rank;
  const size_t world_size = impl_->options.addresses.size(), chunk_bytes = impl_->options.chunk_bytes;
  std::vector<uint64_t> sizes(world_size);
  sizes[rank] = mine.size();
  std::vector<std::span<std::byte>> blocks;
  if (impl_->ring) {
    for (uint64_t& size : sizes) blocks.push_back(std::as_writable_bytes(std::span(&size, 1)));
    const auto told = impl_->ring->run({.kind = Operation::Kind::kAllGatherSizes, .bytes = sizes.size() * sizeof(uint64_t)},
                                       all_gather_schedule(rank, blocks, chunk_bytes));
    if (!told) return tl::make_unexpected(told.error());
  }
  if (const auto most = std::ranges::max_element(sizes); *most > kGatheredMax) {
    const auto from = static_cast<int>(most - sizes.begin());
    return tl::make_unexpected(CollectiveError{CollectiveError::Kind::kConnectionLost, from,
                                               "rank " + std::to_string(from) + " announced " + std::to_string(*most) +
                                                   " bytes for all ranks, more than any has to tell"});
  }

  std::vector<std::vector<std::byte>> gathered(world_size);
  blocks.clear();
  for (size_t i = 0; i < world_size; ++i) {
    gathered[i].resize(sizes[i]);
    blocks.emplace_back(gathered[i]);
  }
  std::ranges::copy(mine, gathered[rank].begin());
  if (const auto told = all_gather_into(blocks); !told) return tl::make_unexpected(told.error());
  return gathered;
}

CollectiveResult<void> Communicator::all_gather_into(std::span<const std::span<std::byte>> blocks) {
  if (!impl_->ring) return {};
  return impl_->ring->run({.kind = Operation::Kind::kAllGather, .bytes = total_bytes(blocks)},
                          all_gather_schedule(rank(), blocks, impl_->options.chunk_bytes));
}

CollectiveResult<void> Communicator::all_to_all(std::span<const std::span<const std::byte>> outgoing,
                                                std::span<const std::span<std::byte>> incoming) {
  const auto me = static_cast<size_t>(rank());
  for (const auto block : incoming) {
    if (block.size() == outgoing[me].size()) continue;
    throw std::invalid_argument("all_to_all: a block for this rank has " + std::to_string(block.size()) + " bytes, its own " +
                                std::to_string(outgoing[me].size()) + ": blocks for one rank are equally long");
  }
  std::ranges::copy(outgoing[me], incoming[me].begin());
  if (!impl_->ring) return {};
  const Span span(SpanKind::kRing, "all-to-all");
  return impl_->ring->run({.kind = Operation::Kind::kAllToAll, .bytes = total_bytes(outgoing)},
                          all_to_all_schedule(rank(), outgoing, incoming, impl_->transit, impl_->options.chunk_bytes));
}

CollectiveResult<void> Communicator::broadcast(std::span<std::byte> buffer, int root) {
  if (root < 0 || root >= world_size()) {
    throw std::invalid_argument("broadcast: root " + std::to_string(root) + " in a world of " + std::to_string(world_size()));
  }
  if (!impl_->ring) return {};
  const Span span(SpanKind::kRing, "broadcast");
  return impl_->ring->run({.kind = Operation::Kind::kBroadcast, .root = root, .bytes = buffer.size()},
                          broadcast_schedule(rank(), world_size(), buffer, root, impl_->options.chunk_bytes));
}

CollectiveResult<void> Communicator::relay(std::span<const std::span<const std::byte>> outgoing,
                                           std::span<const std::span<std::byte>> incoming) {
  if (!impl_->ring) return {};
  return impl_->ring->run({.kind = Operation::Kind::kRelay}, relay_schedule(outgoing, incoming, impl_->options.chunk_bytes));
}

std::jthread Communicator::watch(std::function<void(const CollectiveError&)> on_lost_peer) const {
  if (!impl_->ring) return {};
  return std::jthread([ring = impl_->ring.get(), on_lost_peer = std::move(on_lost_peer)](std::stop_token stop) {
    if (const auto lost = ring->wait_for_lost_peer(std::move(stop))) on_lost_peer(*lost);
  });
}

void Communicator::set_patience(std::chrono::milliseconds timeout, std::chrono::milliseconds quiet,
                                std::function<void(const CollectiveError&)> on_quiet) {
  const WaitLimits limits{timeout, quiet, std::move(on_quiet)};
  if (impl_->ring) impl_->ring->set_limits(limits);
  if (impl_->hierarchy) impl_->hierarchy->set_limits(limits);
}

uint64_t Communicator::bytes_moved() const {
  const HierarchicalReduce* const hierarchy = impl_->shown_hierarchy;
  return (impl_->ring ? impl_->ring->bytes_moved() : 0) + (hierarchy != nullptr ? hierarchy->bytes_moved() : 0);
}

void Communicator::abort(const std::string& reason) {
  impl_->aborted.request_stop();
  if (impl_->ring) impl_->ring->abort(reason);
  if (HierarchicalReduce* const hierarchy = impl_->shown_hierarchy; hierarchy != nullptr) hierarchy->abort(reason);
}

}  // namespace holdfast::worker

#include "model/data/mixture_order.h"

#include <algorithm>
#include <cassert>
#include <numeric>
#include <utility>

#include "model/random.h"

namespace holdfast::model {
namespace {

__extension__ using Wide = unsigned __int128;

// By source, its sequences among the first `places` of a block: each source gets its share, rounded down, of what the sources
// before it left. One place more is one sequence more of one source, so these never fall; and at the block's end they are the
// shares themselves.
std::vector<int64_t> dealt_before(const std::vector<int64_t>& shares, int64_t places, int64_t block) {
  std::vector<int64_t> counts;
  for (const int64_t share : shares) {
    const auto count = static_cast<int64_t>(static_cast<Wide>(places) * static_cast<Wide>(share) / static_cast<Wide>(block));
    counts.push_back(count);
    places -= count;
    block -= share;
  }
  return counts;
}

// Fisher and Yates. The sequence of that number draws the place that it changes with.
void shuffle(std::vector<size_t>& sources, uint64_t seed, int64_t first) {
  for (size_t i = sources.size(); i > 1; --i) {
    const uint64_t number = static_cast<uint64_t>(first) + i - 1;
    const auto drawn = philox4x32({static_cast<uint32_t>(number), static_cast<uint32_t>(number >> 32), kMixtureStream, 0},
                                  {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)});
    std::swap(sources[i - 1], sources[static_cast<size_t>(uint64_t{drawn[0]} * i >> 32)]);
  }
}

// The whole group that sequence `sequence` is in, and the number of its first.
std::pair<int64_t, std::vector<MixtureOrder::Dealt>> group_with(const MixtureOrder& order, int64_t sequence) {
  const int64_t length = std::accumulate(order.shares.begin(), order.shares.end(), int64_t{0});
  const int64_t block = sequence / length, place = sequence % length;
  const int64_t begin = place - place % MixtureOrder::kGroup, end = std::min(length, begin + MixtureOrder::kGroup);
  std::vector<int64_t> next = dealt_before(order.shares, begin, length);
  const std::vector<int64_t> last = dealt_before(order.shares, end, length);
  std::vector<size_t> sources;
  for (size_t i = 0; i < next.size(); ++i) {
    sources.insert(sources.end(), static_cast<size_t>(last[i] - next[i]), i);
    next[i] += block * order.shares[i];
  }
  assert(static_cast<int64_t>(sources.size()) == end - begin);
  const int64_t first = block * length + begin;
  shuffle(sources, order.seed, first);
  std::vector<MixtureOrder::Dealt> group;
  for (const size_t source : sources) group.push_back({source, next[source]++});
  return {first, std::move(group)};
}

}  // namespace

std::vector<MixtureOrder::Dealt> MixtureOrder::deal(int64_t first, int64_t count) const {
  std::vector<Dealt> dealt;
  while (static_cast<int64_t>(dealt.size()) < count) {
    const int64_t next = first + static_cast<int64_t>(dealt.size());
    const auto [begin, group] = group_with(*this, next);
    const auto wanted = std::min(count - (next - first), begin + static_cast<int64_t>(group.size()) - next);
    dealt.insert(dealt.end(), group.begin() + (next - begin), group.begin() + (next - begin) + wanted);
  }
  return dealt;
}

uint64_t MixtureOrder::seed_of(size_t source) const {
  if (source == 0) return seed;
  const auto drawn = philox4x32({static_cast<uint32_t>(source), 0, kMixtureStream, 1},
                                {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)});
  return uint64_t{drawn[1]} << 32 | drawn[0];
}

}  // namespace holdfast::model

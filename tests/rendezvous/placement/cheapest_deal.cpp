#include "tests/rendezvous/placement/cheapest_deal.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "tests/rendezvous/placement/placement_laws.h"

namespace holdfast::rendezvous {
namespace {

class Flow {
 public:
  explicit Flow(size_t nodes) : edges_(nodes) {}
  void edge(size_t from, size_t to, int64_t capacity, int64_t cost) {
    edges_[from].push_back({to, edges_[to].size(), capacity, cost});
    edges_[to].push_back({from, edges_[from].size() - 1, 0, -cost});
  }
  // One unit more along the cheapest path; its cost, or nothing where there is no path.
  std::optional<int64_t> augment(size_t source, size_t sink) {
    constexpr int64_t kFar = std::numeric_limits<int64_t>::max() / 2;
    std::vector<int64_t> cost(edges_.size(), kFar);
    std::vector<Edge*> by(edges_.size(), nullptr);
    std::vector<char> queued(edges_.size(), 0);
    std::deque<size_t> open{source};
    cost[source] = 0;
    while (!open.empty()) {
      const size_t here = open.front();
      open.pop_front();
      queued[here] = 0;
      for (Edge& edge : edges_[here]) {
        if (edge.capacity == 0 || cost[here] + edge.cost >= cost[edge.to]) continue;
        cost[edge.to] = cost[here] + edge.cost;
        by[edge.to] = &edge;
        if (!std::exchange(queued[edge.to], 1)) open.push_back(edge.to);
      }
    }
    if (cost[sink] == kFar) return std::nullopt;
    for (size_t node = sink; node != source;) {
      Edge& back = edges_[node][by[node]->reverse];
      --by[node]->capacity;
      ++back.capacity;
      node = back.to;
    }
    return cost[sink];
  }

 private:
  struct Edge {
    size_t to, reverse;
    int64_t capacity, cost;
  };
  std::vector<std::vector<Edge>> edges_;
};

}  // namespace

std::optional<int64_t> fewest_copies(const PlacementQuestion& question) {
  const size_t chunks = question.chunk_bytes.size(), members = question.members.size();
  const auto k = std::min<int64_t>(question.replicas, static_cast<int64_t>(members));
  std::map<std::string, int64_t> nodes, number;
  for (const PlacementMember& member : question.members) ++nodes[member.node];
  for (const auto& [name, count] : nodes) number.emplace(name, static_cast<int64_t>(number.size()));
  if (static_cast<int64_t>(nodes.size()) < k) return std::nullopt;
  // The level at which all is in, a node having at most one copy of everything.
  const auto all = static_cast<double>(chunks);
  double low = 0, high = all;
  for (int i = 0; i < 100; ++i) {
    const double level = (low + high) / 2;
    double poured = 0;
    for (const auto& [name, count] : nodes) poured += std::min(all, level * static_cast<double>(count));
    (poured >= all * static_cast<double>(k) ? high : low) = level;
  }
  // source, sink, chunks, (chunk, node)s, members
  const auto chunk_at = [&](size_t chunk) { return 2 + chunk; };
  const auto pair_at = [&](size_t chunk, size_t node) { return 2 + chunks + chunk * nodes.size() + node; };
  const auto member_at = [&](size_t member) { return 2 + chunks + chunks * nodes.size() + member; };
  constexpr int64_t kDue = 1'000'000;  // more than all copies: each member has its share, rounded down
  int64_t due = 0;
  Flow flow(2 + chunks + chunks * nodes.size() + members);
  for (size_t chunk = 0; chunk < chunks; ++chunk) {
    flow.edge(0, chunk_at(chunk), k, 0);
    for (size_t node = 0; node < nodes.size(); ++node) flow.edge(chunk_at(chunk), pair_at(chunk, node), 1, 0);
  }
  for (size_t member = 0; member < members; ++member) {
    const std::string& name = question.members[member].node;
    const auto node = static_cast<size_t>(number.at(name));
    for (size_t chunk = 0; chunk < chunks; ++chunk)
      flow.edge(pair_at(chunk, node), member_at(member), 1, holds(question.members[member], chunk) ? 0 : 1);
    const double share = std::min(high, all / static_cast<double>(nodes.at(name)));
    const auto least = static_cast<int64_t>(std::floor(share + 1e-6)), most = static_cast<int64_t>(std::ceil(share - 1e-6));
    flow.edge(member_at(member), 1, least, -kDue);
    flow.edge(member_at(member), 1, most - least, 0);
    due += least;
  }
  int64_t copies = due * kDue;
  for (int64_t unit = 0; unit < k * static_cast<int64_t>(chunks); ++unit) {
    const std::optional<int64_t> cost = flow.augment(0, 1);
    if (!cost) return std::nullopt;
    copies += *cost;
  }
  return copies;
}

}  // namespace holdfast::rendezvous

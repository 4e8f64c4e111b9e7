#include "rendezvous/placement/shares.h"

#include <algorithm>
#include <cstddef>

namespace holdfast::rendezvous {
namespace {

// The lowest level in [0, top] at which `poured(level)` is at least `wanted`; `top` where none is.
template <typename Poured>
int64_t level_for(int64_t wanted, int64_t top, const Poured& poured) {
  int64_t low = 0, high = top;
  while (low < high) {
    const int64_t middle = low + (high - low) / 2;
    poured(middle) >= wanted ? high = middle : low = middle + 1;
  }
  return low;
}

struct Node {
  std::vector<size_t> members;
  int64_t room = 0, least = 0, most = 0;
};

}  // namespace

Shares shares_of(const Rooms& rooms, int64_t total, int32_t k) {
  std::vector<Node> nodes(static_cast<size_t>(rooms.nodes));
  for (size_t member = 0; member < rooms.room.size(); ++member) {
    Node& node = nodes[static_cast<size_t>(rooms.node[member])];
    node.members.push_back(member);
    node.room += rooms.room[member];
  }
  Shares shares;
  shares.bytes.resize(rooms.room.size());
  int64_t apart = 0;
  for (const Node& node : nodes) apart += std::min(total, node.room);
  shares.apart = apart >= k * total;
  for (Node& node : nodes) {
    node.least = shares.apart ? 0 : std::min(total, node.room);
    node.most = shares.apart ? std::min(total, node.room) : node.room;
    shares.whole.push_back(node.room >= total);
  }

  const auto poured_into = [&](const Node& node, int64_t level) {
    int64_t bytes = 0;
    for (const size_t member : node.members) bytes += std::min(rooms.room[member], level);
    return bytes;
  };
  const auto held_by = [&](const Node& node, int64_t level) {
    return std::clamp(poured_into(node, level), node.least, node.most);
  };
  const int64_t level = level_for(k * total, total, [&](int64_t at) {
    int64_t bytes = 0;
    for (const Node& node : nodes) bytes += held_by(node, at);
    return bytes;
  });
  for (const Node& node : nodes) {
    const int64_t own = level_for(held_by(node, level), total, [&](int64_t at) { return poured_into(node, at); });
    for (const size_t member : node.members) shares.bytes[member] = std::min(rooms.room[member], own);
  }
  return shares;
}

}  // namespace holdfast::rendezvous

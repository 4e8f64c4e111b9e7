#include "tests/rendezvous/placement/placement_laws.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <numeric>
#include <set>

namespace holdfast::rendezvous {
namespace {

class Laws {
 public:
  Laws(const PlacementQuestion& question, const Placement& placement)
      : q_(question),
        p_(placement),
        facts_(question, placement),
        k_(std::min<int64_t>(q_.replicas, members())),
        alike_(std::ranges::count(q_.chunk_bytes, facts_.largest) == static_cast<int64_t>(q_.chunk_bytes.size())) {
    for (int64_t i = 0; i < members(); ++i) {
      Node& node = nodes_[at(i).node];
      node.room += facts_.room[index(i)];
      node.owned += facts_.owned[index(i)];
      ++node.members;
    }
    for (const auto& [name, node] : nodes_) apart_ += std::min(facts_.total, node.room);
  }

  std::string broken() const {
    for (const auto& law :
         {&Laws::owners, &Laws::limits, &Laws::nodes, &Laws::loads, &Laws::primaries, &Laws::copies, &Laws::senders}) {
      if (std::string text = (this->*law)(); !text.empty()) return text;
    }
    return "";
  }

 private:
  struct Node {
    int64_t room = 0, owned = 0, members = 0;
  };
  static size_t index(int64_t i) { return static_cast<size_t>(i); }
  int64_t members() const { return static_cast<int64_t>(q_.members.size()); }
  const PlacementMember& at(int64_t rank) const { return q_.members[index(rank)]; }
  size_t chunks() const { return q_.chunk_bytes.size(); }
  bool each_on_its_own_node() const { return apart_ >= k_ * facts_.total; }
  int64_t rounding() const { return members(); }  // shares are whole bytes

  std::string owners() const {
    if (p_.replicas != k_ || p_.owners.size() != chunks() * index(k_)) return fmt::format("{} owners each", p_.replicas);
    for (size_t chunk = 0; chunk < chunks(); ++chunk) {
      const auto owners = p_.owners_of(chunk);
      const std::set<int32_t> different(owners.begin(), owners.end());
      if (static_cast<int64_t>(different.size()) != k_ || *different.begin() < 0 || *different.rbegin() >= members())
        return fmt::format("chunk {} has the owners {}", chunk, fmt::join(owners, " "));
      if (!std::is_sorted(owners.begin() + 1, owners.end())) return fmt::format("chunk {}: {}", chunk, fmt::join(owners, " "));
    }
    return "";
  }

  std::string limits() const {
    for (int64_t i = 0; i < members(); ++i) {
      if (at(i).bytes_max > 0 && facts_.owned[index(i)] > at(i).bytes_max)
        return fmt::format("rank {} owns {} of at most {}", i, facts_.owned[index(i)], at(i).bytes_max);
    }
    return "";
  }

  std::string nodes() const {
    int64_t fewest = k_, apart = 0, usable = 0, small = 0;
    for (const auto& [name, node] : nodes_)
      usable += node.room > 0 ? 1 : 0, small += node.room > 0 && node.room < facts_.total ? 1 : 0;
    for (size_t chunk = 0; chunk < chunks(); ++chunk) {
      std::set<std::string> on;
      for (const int32_t owner : p_.owners_of(chunk)) on.insert(at(owner).node);
      const auto count = static_cast<int64_t>(on.size());
      fewest = std::min(fewest, count);
      apart += count * q_.chunk_bytes[chunk];
      if (each_on_its_own_node() && count != k_) return fmt::format("chunk {} is on {} nodes", chunk, count);
      if (small == 0 && count != std::min(k_, usable))
        return fmt::format("chunk {} is on {} of {} nodes", chunk, count, usable);
    }
    if (p_.nodes_min != fewest) return fmt::format("the fewest nodes are said to be {}, and are {}", p_.nodes_min, fewest);
    const int64_t possible = std::min(apart_, k_ * facts_.total) - 2 * facts_.largest * members();
    if (apart < possible) return fmt::format("bytes times nodes are {} of {}", apart, possible);
    return "";
  }

  // A member may own less than another by more than two chunks where it or its node is full, or the other's node must have
  // much.
  std::string loads() const {
    for (int64_t i = 0; i < members(); ++i) {
      for (int64_t j = 0; j < members(); ++j) {
        if (facts_.owned[index(i)] - facts_.owned[index(j)] <= 2 * facts_.largest + rounding()) continue;
        if (!is_full(j) && (at(i).node == at(j).node || (!is_node_full(at(j).node) && !must_have_much(at(i).node))))
          return fmt::format("rank {} owns {} and rank {} owns {}, largest {}", i, facts_.owned[index(i)], j,
                             facts_.owned[index(j)], facts_.largest);
      }
    }
    return "";
  }
  bool is_full(int64_t rank) const {
    return facts_.owned[index(rank)] >= facts_.room[index(rank)] - 2 * facts_.largest - rounding();
  }
  bool is_node_full(const std::string& name) const {
    const Node& node = nodes_.at(name);
    return each_on_its_own_node() && node.owned >= facts_.total - node.members * (2 * facts_.largest + rounding());
  }
  bool must_have_much(const std::string& name) const {
    const Node& node = nodes_.at(name);
    return !each_on_its_own_node() && node.owned <= facts_.total + node.members * (2 * facts_.largest + rounding());
  }

  // Nobody has over two chunks more than a member who could take some over; or than the last of a chain of these, where chunks
  // are alike in size, else two more for each link.
  using Givers = std::vector<std::set<int32_t>>;  // by rank: who could take something over from it
  std::string evened(const std::string& name, const std::vector<int64_t>& loads, const Givers& takers) const {
    for (int32_t start = 0; start < members(); ++start) {
      std::map<int32_t, int64_t> links{{start, 0}};
      std::vector<int32_t> order{start};
      for (size_t next = 0; next < order.size(); ++next) {
        for (const int32_t taker : takers[index(order[next])]) {
          if (links.try_emplace(taker, links[order[next]] + 1).second) order.push_back(taker);
        }
      }
      for (const auto& [end, count] : links) {
        const int64_t allowed = 2 * facts_.largest * (alike_ ? 1 : count);
        if (loads[index(start)] - loads[index(end)] > allowed)
          return fmt::format("rank {} {} {} bytes, and rank {}, who could take some over, {}", start, name, loads[index(start)],
                             end, loads[index(end)]);
      }
    }
    return "";
  }

  std::string primaries() const {
    Givers takers(q_.members.size());
    for (size_t chunk = 0; chunk < chunks(); ++chunk) {
      const auto owners = p_.owners_of(chunk);
      for (const int32_t other : owners.subspan(1)) takers[index(owners[0])].insert(other);
    }
    return evened("is primary of", facts_.primary, takers);
  }

  std::string copies() const {
    std::vector<std::pair<int32_t, int32_t>> expected, made;
    bool any_held = false;
    for (size_t chunk = 0; chunk < chunks(); ++chunk) {
      for (const PlacementMember& member : q_.members) any_held = any_held || holds(member, chunk);
      const std::set<int32_t> owners(p_.owners_of(chunk).begin(), p_.owners_of(chunk).end());
      for (const int32_t owner : owners) {
        if (!holds(at(owner), chunk)) expected.emplace_back(chunk, owner);
      }
    }
    if (p_.from_source == any_held) return "it comes from a source";
    for (const ChunkCopy& copy : p_.copies) {
      made.emplace_back(copy.chunk, copy.to);
      if (!holds(at(copy.from), index(copy.chunk)))
        return fmt::format("rank {} sends chunk {} and does not hold it", copy.from, copy.chunk);
    }
    if (p_.from_source) return made.empty() ? "" : "a source and copies";
    return made == expected ? "" : fmt::format("{} copies are made and {} needed", made.size(), expected.size());
  }

  std::string senders() const {
    Givers takers(q_.members.size());
    for (const ChunkCopy& copy : p_.copies) {
      for (int64_t i = 0; i < members(); ++i) {
        if (holds(at(i), index(copy.chunk))) takers[index(copy.from)].insert(static_cast<int32_t>(i));
      }
    }
    return evened("sends", facts_.sent, takers);
  }

  const PlacementQuestion& q_;
  const Placement& p_;
  PlacementFacts facts_;
  int64_t k_;
  std::map<std::string, Node> nodes_;
  bool alike_;         // all chunks have one size
  int64_t apart_ = 0;  // bytes that can lie each on a node of its own
};

}  // namespace

bool holds(const PlacementMember& member, size_t chunk) {
  return chunk < member.holds.size() && member.holds[chunk];
}

PlacementFacts::PlacementFacts(const PlacementQuestion& question, const Placement& placement) {
  const size_t members = question.members.size();
  owned.resize(members), primary.resize(members), received.resize(members), sent.resize(members);
  for (size_t chunk = 0; chunk < question.chunk_bytes.size(); ++chunk) {
    const int64_t bytes = question.chunk_bytes[chunk];
    total += bytes;
    largest = std::max(largest, bytes);
    const auto holders =
        std::ranges::count_if(question.members, [&](const PlacementMember& member) { return holds(member, chunk); });
    missing += bytes * std::max<int64_t>(0, placement.replicas - holders);
    for (const int32_t owner : placement.owners_of(chunk)) owned.at(static_cast<size_t>(owner)) += bytes;
    primary.at(static_cast<size_t>(placement.owners_of(chunk)[0])) += bytes;
  }
  for (const PlacementMember& member : question.members) {
    const bool for_all = member.bytes_max == 0 || member.bytes_max >= total;
    room.push_back(for_all ? total : std::max<int64_t>(0, member.bytes_max - 2 * largest));
  }
  for (const ChunkCopy& copy : placement.copies) {
    const int64_t bytes = question.chunk_bytes.at(static_cast<size_t>(copy.chunk));
    copied += bytes;
    sent.at(static_cast<size_t>(copy.from)) += bytes;
    received.at(static_cast<size_t>(copy.to)) += bytes;
  }
}

std::string broken_promise(const PlacementQuestion& question, const Placement& placement) {
  return Laws(question, placement).broken();
}

}  // namespace holdfast::rendezvous

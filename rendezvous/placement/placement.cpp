#include "rendezvous/placement/placement.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>

#include "rendezvous/placement/evening.h"
#include "rendezvous/placement/owners.h"
#include "rendezvous/placement/placement_check.h"
#include "rendezvous/placement/shares.h"
#include "rendezvous/text/plural.h"

namespace holdfast::rendezvous {
namespace {

std::string refusal_of(const PlacementQuestion& question) {
  const auto& [chunk_bytes, replicas, members] = question;
  if (chunk_bytes.empty()) return "there are no chunks to place";
  if (members.empty()) return "there are no members to own the chunks";
  if (replicas < 1) return fmt::format("replicas is {}: at least 1 is expected", replicas);
  for (size_t chunk = 0; chunk < chunk_bytes.size(); ++chunk) {
    if (chunk_bytes[chunk] < 1) return fmt::format("chunk {} has {} bytes: at least 1 is expected", chunk, chunk_bytes[chunk]);
  }
  for (size_t rank = 0; rank < members.size(); ++rank) {
    if (members[rank].bytes_max < 0)
      return fmt::format("rank {} has a limit of {} bytes: 0 means none", rank, members[rank].bytes_max);
    const size_t told = members[rank].holds.size();
    if (told != 0 && told != chunk_bytes.size())
      return fmt::format("rank {} tells of {}, and there are {}", rank, counted(static_cast<int64_t>(told), "chunk"),
                         chunk_bytes.size());
  }
  return "";
}

Rooms rooms_of(const std::vector<PlacementMember>& members, int64_t total, int64_t largest) {
  Rooms rooms;
  std::map<std::string, int32_t> nodes;
  for (const PlacementMember& member : members) {
    rooms.node.push_back(nodes.try_emplace(member.node, static_cast<int32_t>(nodes.size())).first->second);
    const bool for_all = member.bytes_max == 0 || member.bytes_max >= total;
    rooms.room.push_back(for_all ? total : std::max<int64_t>(0, member.bytes_max - 2 * largest));
  }
  rooms.nodes = static_cast<int32_t>(nodes.size());
  return rooms;
}

// The members that each chunk could be had from: the choice of primaries and of senders is one of these for each.
class Choice {
 public:
  Choice(size_t units, size_t members) : chosen_(units), bytes_(members, 0) {}

  // Each unit takes, of those that `may` have it, the member with the fewest bytes; then they are evened out.
  template <typename May>
  std::vector<int32_t> choose(std::span<const int64_t> unit_bytes, int64_t tolerance, const May& may) {
    for (const size_t unit : largest_first(unit_bytes)) {
      int64_t fewest = std::numeric_limits<int64_t>::max();
      for (size_t member = 0; member < bytes_.size(); ++member) {
        if (!may(unit, member) || bytes_[member] >= fewest) continue;
        fewest = bytes_[member];
        chosen_[unit] = static_cast<int32_t>(member);
      }
      bytes_[static_cast<size_t>(chosen_[unit])] += unit_bytes[unit];
    }
    Rule<May> rule{chosen_, may};
    Evening(rule, unit_bytes, bytes_).even_out(tolerance);
    return chosen_;
  }

 private:
  template <typename May>
  struct Rule {  // of evening.h
    static constexpr size_t kCosts = 1;
    std::vector<int32_t>& chosen;
    const May& may;
    int cost(size_t unit, size_t from, size_t to) const { return from != to && may(unit, to) ? 0 : kForbidden; }
    static int64_t weight(size_t) { return 1; }
    bool has(size_t unit, size_t member) const { return chosen[unit] == static_cast<int32_t>(member); }
    void move(size_t unit, size_t, size_t to) { chosen[unit] = static_cast<int32_t>(to); }
    std::span<const int32_t> bins_of(size_t unit) const { return std::span(chosen).subspan(unit, 1); }
  };

  std::vector<int32_t> chosen_;  // by unit: a rank
  std::vector<int64_t> bytes_;   // by member
};

class Placing {
 public:
  explicit Placing(const PlacementQuestion& question)
      : bytes_(question.chunk_bytes), members_(question.members.size()), held_(bytes_.size(), members_) {
    for (size_t member = 0; member < members_; ++member) {
      const std::vector<bool>& holds = question.members[member].holds;
      for (size_t chunk = 0; chunk < holds.size(); ++chunk) held_.set(chunk, member, holds[chunk]);
    }
  }

  // Chunks that nobody holds: all of them where nothing is held.
  std::vector<int32_t> not_held() const {
    std::vector<int32_t> chunks;
    for (size_t chunk = 0; chunk < bytes_.size(); ++chunk) {
      bool held = false;
      for (size_t member = 0; member < members_; ++member) held = held || held_.at(chunk, member);
      if (!held) chunks.push_back(static_cast<int32_t>(chunk));
    }
    return chunks;
  }

  Placement place(const Rooms& rooms, int64_t total, int32_t k, int64_t tolerance, bool from_source) const {
    Placement placement;
    placement.replicas = k;
    placement.from_source = from_source;
    const Shares shares = shares_of(rooms, total, k);
    Owners owners(bytes_, held_, rooms, shares, k);
    owners.deal(tolerance);
    put_owners(placement, owners, tolerance);
    placement.nodes_min = fewest_nodes(placement, rooms);
    if (!from_source) put_copies(placement, owners, tolerance);
    return placement;
  }

 private:
  void put_owners(Placement& placement, const Owners& owners, int64_t tolerance) const {
    const auto may = [&](size_t chunk, size_t member) { return owners.owns(member, chunk); };
    const std::vector<int32_t> primaries = Choice(bytes_.size(), members_).choose(bytes_, tolerance, may);
    for (size_t chunk = 0; chunk < bytes_.size(); ++chunk) {
      const auto begin = static_cast<std::ptrdiff_t>(placement.owners.size());
      for (const int32_t owner : owners.of(chunk)) placement.owners.push_back(owner);
      const auto first = placement.owners.begin() + begin;
      std::iter_swap(first, std::find(first, placement.owners.end(), primaries[chunk]));
      std::sort(first + 1, placement.owners.end());
    }
  }

  static int32_t fewest_nodes(const Placement& placement, const Rooms& rooms) {
    int32_t fewest = placement.replicas;
    std::vector<int32_t> nodes;
    for (size_t chunk = 0; chunk * static_cast<size_t>(placement.replicas) < placement.owners.size(); ++chunk) {
      nodes.clear();
      for (const int32_t owner : placement.owners_of(chunk)) nodes.push_back(rooms.node[static_cast<size_t>(owner)]);
      std::ranges::sort(nodes);
      fewest = std::min(fewest, static_cast<int32_t>(std::ranges::unique(nodes).begin() - nodes.begin()));
    }
    return fewest;
  }

  void put_copies(Placement& placement, const Owners& owners, int64_t tolerance) const {
    std::vector<int64_t> bytes;
    for (size_t chunk = 0; chunk < bytes_.size(); ++chunk) {
      for (size_t member = 0; member < members_; ++member) {
        if (!owners.owns(member, chunk) || held_.at(chunk, member)) continue;
        placement.copies.push_back({static_cast<int32_t>(chunk), 0, static_cast<int32_t>(member)});
        bytes.push_back(bytes_[chunk]);
      }
    }
    const auto may = [&](size_t copy, size_t member) {
      return held_.at(static_cast<size_t>(placement.copies[copy].chunk), member);
    };
    const std::vector<int32_t> senders = Choice(bytes.size(), members_).choose(bytes, tolerance, may);
    for (size_t copy = 0; copy < senders.size(); ++copy) placement.copies[copy].from = senders[copy];
  }

  const std::vector<int64_t>& bytes_;
  size_t members_;
  ChunkTable held_;
};

}  // namespace

tl::expected<std::variant<Placement, LostChunks>, std::string> place(const PlacementQuestion& question) {
  if (std::string refusal = refusal_of(question); !refusal.empty()) return tl::unexpected(std::move(refusal));
  const int64_t total = std::accumulate(question.chunk_bytes.begin(), question.chunk_bytes.end(), int64_t{0});
  const int64_t largest = *std::ranges::max_element(question.chunk_bytes);
  const auto k = static_cast<int32_t>(std::min(question.replicas, static_cast<int64_t>(question.members.size())));
  const Rooms rooms = rooms_of(question.members, total, largest);
  const int64_t there = std::accumulate(rooms.room.begin(), rooms.room.end(), int64_t{0});
  if (there < k * total)
    return tl::unexpected(
        fmt::format("the members' limits are too low together: {} of {} bytes need {} bytes, and {} can own {} "
                    "(a limit below {} counts {} bytes lower, two of the largest chunk): raise a limit, lower "
                    "replicas or add members",
                    counted(k, "copy", "copies"), total, k * total,
                    counted(static_cast<int64_t>(question.members.size()), "member"), there, total, 2 * largest));

  const Placing placing(question);
  std::vector<int32_t> not_held = placing.not_held();
  const bool from_source = not_held.size() == question.chunk_bytes.size();
  if (!from_source && !not_held.empty()) return LostChunks{std::move(not_held)};
  Placement placement = placing.place(rooms, total, k, 2 * largest, from_source);
  require_sound(question, placement);
  return placement;
}

}  // namespace holdfast::rendezvous

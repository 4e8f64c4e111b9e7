#include "rendezvous/placement/owners.h"

#include <algorithm>
#include <optional>

#include "rendezvous/placement/evening.h"

namespace holdfast::rendezvous {
namespace {

int64_t floored(int64_t value, int64_t by) {
  return value >= 0 ? value / by : -((by - 1 - value) / by);
}

}  // namespace

Owners::Owners(std::span<const int64_t> chunk_bytes, const ChunkTable& held, const Rooms& rooms, const Shares& shares,
               int32_t k)
    : bytes_(chunk_bytes),
      held_(held),
      rooms_(rooms),
      shares_(shares),
      k_(k),
      members_(rooms.room.size()),
      largest_(*std::ranges::max_element(chunk_bytes)),
      owned_(chunk_bytes.size(), members_),
      owners_(chunk_bytes.size() * static_cast<size_t>(k)),
      count_(chunk_bytes.size()),
      shared_(members_ * members_) {
  for (const int64_t share : shares.bytes) excess_.push_back(-share);
  for (int32_t node = 0; node < rooms.nodes; ++node) {
    if (must_have_all(node)) musts_.push_back(node);
  }
}

void Owners::deal(int64_t tolerance) {
  const std::vector<size_t> order = largest_first(bytes_);  // small ones come last and even out
  for (const bool of_holders : {true, false}) {
    for (const size_t chunk : order) {
      while (count_[chunk] < k_ && add_best(chunk, of_holders)) {
      }
    }
  }
  Evening(*this, bytes_, excess_).even_out(tolerance);
  // The next placement finds each copy held, and nothing may move then: as it will look for moves it is done here until there
  // are none. (Units of unlike sizes can be in each other's way, and one order of them finds a move that another one misses.)
  all_are_held_ = true;
  while (Evening(*this, bytes_, excess_).even_out(tolerance)) {
  }
}

// One owner more; whether there was anybody.
bool Owners::add_best(size_t chunk, bool of_holders) {
  const bool all_are_due = k_ - count_[chunk] <= due(chunk);
  std::optional<Candidate> best;
  for (size_t member = 0; member < members_; ++member) {
    if ((of_holders && !held_.at(chunk, member)) || rooms_.room[member] == 0 || owns(member, chunk)) continue;
    const Fit fit = fit_of(chunk, member);
    if ((all_are_due && fit != Fit::kDue) || (fit == Fit::kSpoils && (of_holders || shares_.apart))) continue;
    const Candidate candidate{fit, floored(excess_[member], largest_), shared_with(chunk, member), excess_[member], member};
    if (!best || candidate < *best) best = candidate;
  }
  if (best) add(chunk, best->member);
  return best.has_value();
}

Owners::Fit Owners::fit_of(size_t chunk, size_t member) const {
  const bool must = must_have_all(rooms_.node[member]);
  if (copies_on(chunk, rooms_.node[member]) > 0) return must ? Fit::kDoubles : Fit::kSpoils;
  return must ? Fit::kDue : Fit::kApart;
}

// How many nodes must have the chunk and lack it.
int32_t Owners::due(size_t chunk) const {
  return static_cast<int32_t>(std::ranges::count_if(musts_, [&](int32_t node) { return copies_on(chunk, node) == 0; }));
}

int64_t Owners::shared_with(size_t chunk, size_t member) const {
  int64_t bytes = 0;
  for (const int32_t owner : known(chunk)) bytes += shared_[static_cast<size_t>(owner) * members_ + member];
  return bytes;
}

void Owners::add(size_t chunk, size_t member) {
  for (const int32_t owner : known(chunk)) {
    shared_[static_cast<size_t>(owner) * members_ + member] += bytes_[chunk];
    shared_[member * members_ + static_cast<size_t>(owner)] += bytes_[chunk];
  }
  owners_[chunk * static_cast<size_t>(k_) + static_cast<size_t>(count_[chunk]++)] = static_cast<int32_t>(member);
  owned_.set(chunk, member, true);
  excess_[member] += bytes_[chunk];
}

int32_t Owners::copies_on(size_t chunk, int32_t node) const {
  int32_t copies = 0;
  for (const int32_t owner : known(chunk)) copies += rooms_.node[static_cast<size_t>(owner)] == node ? 1 : 0;
  return copies;
}

int Owners::cost(size_t chunk, size_t from, size_t to) const {
  if (owns(to, chunk) || rooms_.room[to] == 0) return kForbidden;
  const int copies = all_are_held_ ? 2 : 1 + (held_.at(chunk, to) ? 0 : 1) - (held_.at(chunk, from) ? 0 : 1);
  const int32_t giver = rooms_.node[from], taker = rooms_.node[to];
  if (giver == taker) return copies;
  if (copies_on(chunk, taker) > 0 && !must_have_all(taker)) return kForbidden;
  return copies_on(chunk, giver) > 1 || !must_have_all(giver) ? copies : kForbidden;
}

// The cheapest chain makes the fewest copies, and then is the shortest.
int64_t Owners::weight(size_t cost) {
  constexpr int64_t kCopy = int64_t{1} << 16;
  return static_cast<int64_t>(cost) + 1 + (cost == 2 ? kCopy : 0);
}

void Owners::move(size_t chunk, size_t from, size_t to) {
  const auto begin = owners_.begin() + static_cast<std::ptrdiff_t>(chunk * static_cast<size_t>(k_));
  *std::find(begin, begin + k_, static_cast<int32_t>(from)) = static_cast<int32_t>(to);
  owned_.set(chunk, from, false);
  owned_.set(chunk, to, true);
}

}  // namespace holdfast::rendezvous

// Two members that both live and do not reach each other: a firewall, a lasting one-way cut, a broken switch port.
//
// Both answer the service, so neither is lost, and every ring in which they are neighbours fails. Connections of a ring are
// between neighbours alone, so they are kept apart on the next one. A ring of three or fewer has no room for that: there one
// of the two waits, and is tried again after a pause that doubles; so does a worker that several others do not reach. What this
// knows is gone when either begins a new life: who has mended the network starts its worker again and is believed at once.
#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>

#include "rendezvous/membership/growing_pause.h"
#include "rendezvous/membership/turn.h"
#include "rendezvous/text/list_in_words.h"
#include "rendezvous/text/natural_order.h"

namespace holdfast::rendezvous {
namespace {

constexpr int64_t kSureStrikes = 2;  // of a pair, before anybody is left out for it
constexpr int64_t kPeersToBar = 2;   // that do not reach a worker, while they have no such trouble with others
constexpr Millis kPauseMs = 60000, kPauseMaxMs = 30 * 60000;
constexpr int64_t kTriesMax = 2000;  // arrangements looked at; sixteen names with a few rifts take some dozen

RiftKey key_of(const std::string& a, const std::string& b) {
  return natural_less(a, b) ? RiftKey{a, b} : RiftKey{b, a};
}

bool has(const RiftKey& key, const std::string& worker) {
  return key.first == worker || key.second == worker;
}

bool is_alive(const JobMembership& job, const Member& member) {
  const auto found = job.participants.find(member.worker);
  return found != job.participants.end() && found->second.member.incarnation == member.incarnation;
}

bool is_alive(const JobMembership& job, const Rift& rift) {
  return is_alive(job, rift.first) && is_alive(job, rift.second);
}

// It began a new life. One that is not of the job now may come back as it was.
bool is_over(const JobMembership& job, const Member& member) {
  return job.participants.contains(member.worker) && !is_alive(job, member);
}

bool is_sure(const Rift& rift, Millis now) {
  return rift.strikes >= kSureStrikes && now < rift.again_ms;
}

Millis pause_after(int64_t times) {
  return growing_pause(kPauseMs, kPauseMaxMs, times);
}

// A ring of `names` without the `rifts` between neighbours: the first such in the order of the names.
class Arrangement {
 public:
  Arrangement(const std::vector<std::string>& names, const std::set<RiftKey>& rifts)
      : names_(names), size_(names.size()), apart_(size_ * size_), used_(size_) {
    for (size_t i = 0; i < size_; ++i) {
      for (size_t j = 0; j < size_; ++j) apart_[i * size_ + j] = i != j && rifts.contains(key_of(names[i], names[j]));
    }
  }

  std::optional<std::vector<std::string>> find() {
    if (size_ > 1 && !everyone_has_neighbours()) return std::nullopt;
    take(0);
    if (!extend()) return std::nullopt;
    std::vector<std::string> ring;
    for (const size_t i : ring_) ring.push_back(names_[i]);
    return ring;
  }

 private:
  bool apart(size_t i, size_t j) const { return apart_[i * size_ + j]; }
  bool everyone_has_neighbours() const {
    for (size_t i = 0; i < size_; ++i) {
      const auto begin = apart_.begin() + static_cast<std::ptrdiff_t>(i * size_);
      const auto reached = std::count(begin, begin + static_cast<std::ptrdiff_t>(size_), false) - 1;
      if (reached < std::min<int64_t>(2, static_cast<int64_t>(size_) - 1)) return false;
    }
    return true;
  }
  void take(size_t i) {
    used_[i] = true;
    ring_.push_back(i);
  }
  bool extend() {
    if (ring_.size() == size_) return !apart(ring_.back(), ring_.front());
    for (size_t i = 0; i < size_; ++i) {
      if (used_[i] || apart(ring_.back(), i)) continue;
      if (++tries_ > kTriesMax) return false;
      take(i);
      if (extend()) return true;
      ring_.pop_back();
      used_[i] = false;
    }
    return false;
  }

  const std::vector<std::string>& names_;
  size_t size_;
  std::vector<bool> apart_, used_;
  std::vector<size_t> ring_;
  int64_t tries_ = 0;
};

std::optional<std::vector<std::string>> arrange(const std::vector<std::string>& names, const std::set<RiftKey>& rifts) {
  if (rifts.empty()) return names;  // as nearly always, and a table of all pairs is large where there are many names
  return Arrangement(names, rifts).find();
}

// `sure`: those alone for which somebody may have to wait; one that had its pause is on trial, and is none of them.
std::set<RiftKey> rifts_among(const JobMembership& job, const std::vector<std::string>& names, bool sure, Millis now) {
  std::set<RiftKey> found;
  for (const auto& [key, rift] : job.rifts) {
    if (!is_alive(job, rift) || (sure && !is_sure(rift, now))) continue;
    const auto is_here = [&](const std::string& name) { return std::ranges::find(names, name) != names.end(); };
    if (is_here(key.first) && is_here(key.second)) found.insert(key);
  }
  return found;
}

int64_t rifts_of(const JobMembership& job, const std::string& worker) {
  return std::ranges::count_if(job.rifts, [&](const auto& entry) { return has(entry.first, worker); });
}

// Several others do not reach it, and those have no such trouble among themselves: it is the worker's, not the pair's.
bool is_unreached(const JobMembership& job, const std::string& worker) {
  if (rifts_of(job, worker) < kPeersToBar) return false;
  return std::ranges::all_of(job.rifts, [&](const auto& entry) {
    if (!has(entry.first, worker)) return true;
    return rifts_of(job, entry.first.first == worker ? entry.first.second : entry.first.first) == 1;
  });
}

// Without it committed steps would be lost: nobody else among the names has them, nor a checkpoint.
bool is_irreplaceable(const JobMembership& job, const std::vector<std::string>& names, const std::string& worker) {
  if (job.stage != Stage::kForming) return false;  // whoever trains has them
  const auto memory = [&](const std::string& name) { return memory_of(job, job.participants.at(name)); };
  const KnownCheckpoint* newest = newest_checkpoint(job);
  int64_t others = newest != nullptr ? newest->step : 0;
  for (const std::string& name : names) others = name == worker ? others : std::max(others, memory(name));
  return others < (is_outrun(job) ? memory(worker) : std::min(memory(worker), job.committed_step));
}

// Who waits, of those that have a rift: rather one with more of them, rather one that is to join than a member, rather a higher
// rank; nobody who is irreplaceable.
std::optional<std::string> one_to_wait(const JobMembership& job, const std::vector<std::string>& names,
                                       const std::set<RiftKey>& rifts) {
  std::optional<std::string> chosen;
  std::pair<int64_t, bool> chosen_rank;
  for (const std::string& name : names) {
    const auto count = std::ranges::count_if(rifts, [&](const RiftKey& key) { return has(key, name); });
    if (count == 0 || is_irreplaceable(job, names, name)) continue;
    const std::pair<int64_t, bool> rank{count, !is_member(job, job.participants.at(name))};
    if (chosen && rank < chosen_rank) continue;
    chosen = name;
    chosen_rank = rank;
  }
  return chosen;
}

Seating seat_at_least(int64_t least, const JobMembership& job, const std::vector<std::string>& all, Millis now) {
  Seating seating{all, {}};
  const auto send_out = [&](const std::string& name) {
    std::erase(seating.ring, name);
    seating.waiting.push_back(name);
  };
  const auto can_spare = [&] { return static_cast<int64_t>(seating.ring.size()) > least; };
  for (const std::string& name : all) {
    const auto barred = job.barred.find(name);
    const bool waits = barred != job.barred.end() && is_alive(job, barred->second.member) && now < barred->second.again_ms;
    if (waits && can_spare() && !is_irreplaceable(job, seating.ring, name)) send_out(name);
  }
  if (auto ring = arrange(seating.ring, rifts_among(job, seating.ring, false, now)))
    return {std::move(*ring), std::move(seating.waiting)};
  while (true) {
    const std::set<RiftKey> rifts = rifts_among(job, seating.ring, true, now);
    if (auto ring = arrange(seating.ring, rifts)) return {std::move(*ring), std::move(seating.waiting)};
    const auto out = one_to_wait(job, seating.ring, rifts);
    if (!out || !can_spare()) return {all, {}};
    send_out(*out);
  }
}

}  // namespace

Seating seat(const JobMembership& job, const std::vector<std::string>& names, Millis now) {
  return seat_at_least(std::max<int64_t>(job.min_nodes, 1), job, names, now);
}

std::vector<std::string> in_the_way(const JobMembership& job, Millis now) {
  if (job.rifts.empty()) return {};
  std::vector<std::string> names;
  for (const auto& [worker, p] : job.participants) {
    if (!is_leaving(p) && (is_prepared(job, p) || is_member(job, p))) names.push_back(worker);
  }
  if (names.empty()) return {};
  std::ranges::sort(names, natural_less);
  return seat_at_least(1, job, names, now).waiting;
}

bool is_kept_away(const JobMembership& job, const std::string& worker, const std::string& incarnation, Millis now) {
  const auto barred = job.barred.find(worker);
  if (barred != job.barred.end() && barred->second.member.incarnation == incarnation && now < barred->second.again_ms)
    return true;
  return std::ranges::any_of(job.rifts, [&](const auto& entry) {
    const Rift& rift = entry.second;
    const bool first = rift.first.worker == worker;
    const Member &mine = first ? rift.first : rift.second, &other = first ? rift.second : rift.first;
    return mine.worker == worker && mine.incarnation == incarnation && is_alive(job, other) && is_sure(rift, now);
  });
}

void on_unreached(JobMembership& job, const std::vector<Member>& members, const FaultReport& report) {
  const auto size = static_cast<int>(members.size());
  const int suspect = report.suspect_rank;
  if (report.suspect_gone || suspect < 0 || suspect >= size) return;
  // Only of neighbours does a rank know anything.
  for (const int rank : {(suspect + 1) % size, (suspect + size - 1) % size}) {
    if (rank != suspect && members[rank].worker == report.worker && members[rank].incarnation == report.incarnation)
      job.unreached.insert(key_of(report.worker, members[suspect].worker));
  }
}

void count_rifts(Turn& turn) {
  JobMembership& job = turn.job;
  std::erase_if(job.rifts,
                [&](const auto& entry) { return is_over(job, entry.second.first) || is_over(job, entry.second.second); });
  std::erase_if(job.barred, [&](const auto& entry) { return is_over(job, entry.second.member); });
  std::set<std::string> struck;
  for (const RiftKey& key : std::exchange(job.unreached, {})) {
    const auto a = job.participants.find(key.first), b = job.participants.find(key.second);
    if (a == job.participants.end() || b == job.participants.end()) continue;
    // One that did not stop when it was told to may have been asleep, or dead: that is no rift.
    if (!is_member(job, a->second) || !is_member(job, b->second)) continue;
    if (!is_prepared(job, a->second) || !is_prepared(job, b->second)) continue;
    Rift& rift = job.rifts[key];
    rift.first = a->second.member;
    rift.second = b->second.member;
    if (++rift.strikes >= kSureStrikes) rift.again_ms = turn.now + pause_after(rift.strikes - kSureStrikes + 1);
    struck.insert({key.first, key.second});
  }
  for (const std::string& worker : struck) {
    if (!is_unreached(job, worker)) continue;
    Barred& barred = job.barred[worker];
    barred.member = job.participants.at(worker).member;
    barred.again_ms = turn.now + pause_after(++barred.times);
  }
}

void note_waiting(Turn& turn, const Seating& seating) {
  const JobMembership& job = turn.job;
  for (const std::string& worker : seating.waiting) {
    const std::string& address = job.participants.at(worker).member.address;
    std::vector<std::string> others;
    Millis again_ms = 0;
    for (const auto& [key, rift] : job.rifts) {
      if (!has(key, worker) || !is_alive(job, rift)) continue;
      others.push_back(key.first == worker ? key.second : key.first);
      again_ms = std::max(again_ms, rift.again_ms);
    }
    if (const auto barred = job.barred.find(worker); barred != job.barred.end())
      again_ms = std::max(again_ms, barred->second.again_ms);
    std::ranges::sort(others, natural_less);
    turn.note(
        "worker_left_out",
        fmt::format("{} waits: it answers the service, but no ring formed with it and {} as neighbours, and there is no other "
                    "place for it. Look for a firewall or a broken cable at {} ({}); it is tried again in {} s, or at once "
                    "when it is started again",
                    worker, in_words(others), worker, address, std::max<Millis>(0, again_ms - turn.now) / 1000),
        worker);
  }
}

void forget_bridged_rifts(JobMembership& job) {
  const auto& members = job.current.members;
  for (size_t rank = 0; rank < members.size(); ++rank) {
    const RiftKey key = key_of(members[rank].worker, members[(rank + 1) % members.size()].worker);
    job.rifts.erase(key);
    job.unreached.erase(key);
    job.barred.erase(members[rank].worker);
  }
}

}  // namespace holdfast::rendezvous

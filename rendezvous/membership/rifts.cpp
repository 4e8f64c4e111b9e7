// Rifts: two members that both live and do not reach each other (a firewall, a lasting one-way cut, a broken switch port).
//
// Both answer the service, so neither is lost, and every ring in which they are neighbours fails. This file counts such
// failures. A pair that failed twice is a sure rift: seating.cpp keeps the two apart, and one of them waits where the ring has
// no room for that. It is tried again after a pause that doubles; so is a worker that several others do not reach.
// A rift is forgotten when either of the two begins a new life: whoever has mended the network starts that worker again, and it
// is believed at once.
#include "rendezvous/membership/rifts.h"

#include <algorithm>
#include <set>
#include <utility>

#include "rendezvous/membership/growing_pause.h"
#include "rendezvous/membership/turn.h"
#include "rendezvous/text/natural_order.h"

namespace holdfast::rendezvous {
namespace {

constexpr int64_t kSureStrikes = 2;  // of a pair, before anybody is left out for it
constexpr int64_t kPeersToBar = 2;   // that do not reach a worker, while they have no such trouble with others
constexpr Millis kPauseMs = 60000, kPauseMaxMs = 30 * 60000;

// The worker began a new life. A worker that is not of the job now may come back in the same one.
bool is_over(const JobMembership& job, const Member& member) {
  return job.participants.contains(member.worker) && !is_same_life(job, member);
}

Millis pause_after(int64_t times) {
  return growing_pause(kPauseMs, kPauseMaxMs, times);
}

int64_t rifts_of(const JobMembership& job, const std::string& worker) {
  return std::ranges::count_if(job.rifts, [&](const auto& entry) { return concerns(entry.first, worker); });
}

// Several others do not reach the worker, and have no such trouble among themselves: the fault is the worker's, not the pair's.
bool is_unreached(const JobMembership& job, const std::string& worker) {
  if (rifts_of(job, worker) < kPeersToBar) return false;
  return std::ranges::all_of(job.rifts, [&](const auto& entry) {
    if (!concerns(entry.first, worker)) return true;
    return rifts_of(job, entry.first.first == worker ? entry.first.second : entry.first.first) == 1;
  });
}

}  // namespace

RiftKey rift_key(const std::string& a, const std::string& b) {
  return natural_less(a, b) ? RiftKey{a, b} : RiftKey{b, a};
}

bool concerns(const RiftKey& key, const std::string& worker) {
  return key.first == worker || key.second == worker;
}

bool is_same_life(const JobMembership& job, const Member& member) {
  const auto found = job.participants.find(member.worker);
  return found != job.participants.end() && found->second.member.incarnation == member.incarnation;
}

bool is_between_living(const JobMembership& job, const Rift& rift) {
  return is_same_life(job, rift.first) && is_same_life(job, rift.second);
}

bool is_sure(const Rift& rift, Millis now) {
  return rift.strikes >= kSureStrikes && now < rift.again_ms;
}

bool is_kept_away(const JobMembership& job, const std::string& worker, const std::string& incarnation, Millis now) {
  const auto barred = job.barred.find(worker);
  if (barred != job.barred.end() && barred->second.member.incarnation == incarnation && now < barred->second.again_ms)
    return true;
  return std::ranges::any_of(job.rifts, [&](const auto& entry) {
    const Rift& rift = entry.second;
    const bool first = rift.first.worker == worker;
    const Member &mine = first ? rift.first : rift.second, &other = first ? rift.second : rift.first;
    return mine.worker == worker && mine.incarnation == incarnation && is_same_life(job, other) && is_sure(rift, now);
  });
}

void on_unreached(JobMembership& job, const std::vector<Member>& members, const FaultReport& report) {
  const auto size = static_cast<int>(members.size());
  const int suspect = report.suspect_rank;
  if (suspect < 0 || suspect >= size) return;
  // Only of neighbours does a rank know anything.
  for (const int rank : {(suspect + 1) % size, (suspect + size - 1) % size}) {
    if (rank != suspect && members[rank].worker == report.worker && members[rank].incarnation == report.incarnation)
      job.unreached.insert(rift_key(report.worker, members[suspect].worker));
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
    // A member that did not stop when it was told to may have been asleep, or dead: that is no rift.
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

void forget_bridged_rifts(JobMembership& job) {
  const auto& members = job.current.members;
  for (size_t rank = 0; rank < members.size(); ++rank) {
    const RiftKey key = rift_key(members[rank].worker, members[(rank + 1) % members.size()].worker);
    job.rifts.erase(key);
    job.unreached.erase(key);
    job.barred.erase(members[rank].worker);
  }
}

}  // namespace holdfast::rendezvous

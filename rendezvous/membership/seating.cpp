// Seating: neighbours of a rift are kept apart, by trying the orders one after the other.
#include "rendezvous/membership/seating.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "rendezvous/membership/rifts.h"
#include "rendezvous/membership/turn.h"
#include "rendezvous/text/list_in_words.h"
#include "rendezvous/text/natural_order.h"

namespace holdfast::rendezvous {
namespace {

constexpr int64_t kTriesMax = 2000;  // orders that are looked at; sixteen names with a few rifts take some dozen

// A ring of `names` without the `rifts` between neighbours: the first such in the order of the names.
class Arrangement {
 public:
  Arrangement(const std::vector<std::string>& names, const std::set<RiftKey>& rifts)
      : names_(names), size_(names.size()), apart_(size_ * size_), used_(size_) {
    for (size_t i = 0; i < size_; ++i) {
      for (size_t j = 0; j < size_; ++j) apart_[i * size_ + j] = i != j && rifts.contains(rift_key(names[i], names[j]));
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
    if (!is_between_living(job, rift) || (sure && !is_sure(rift, now))) continue;
    const auto is_here = [&](const std::string& name) { return std::ranges::find(names, name) != names.end(); };
    if (is_here(key.first) && is_here(key.second)) found.insert(key);
  }
  return found;
}

// Without it committed steps would be lost: nobody else among the names has them, nor a checkpoint.
bool is_irreplaceable(const JobMembership& job, const std::vector<std::string>& names, const std::string& worker) {
  if (job.stage != Stage::kForming) return false;  // the workers that train have them
  const auto memory = [&](const std::string& name) { return memory_of(job, job.participants.at(name)); };
  const KnownCheckpoint* newest = newest_checkpoint(job);
  int64_t others = newest != nullptr ? newest->step : 0;
  for (const std::string& name : names) others = name == worker ? others : std::max(others, memory(name));
  return others < (is_outrun(job) ? memory(worker) : std::min(memory(worker), job.committed_step));
}

// The worker that waits, of those that have a rift: rather one with more rifts, rather a joiner than a member, rather a higher
// rank; never an irreplaceable one.
std::optional<std::string> one_to_wait(const JobMembership& job, const std::vector<std::string>& names,
                                       const std::set<RiftKey>& rifts) {
  std::optional<std::string> chosen;
  std::pair<int64_t, bool> chosen_rank;
  for (const std::string& name : names) {
    const auto count = std::ranges::count_if(rifts, [&](const RiftKey& key) { return concerns(key, name); });
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
    const bool waits = barred != job.barred.end() && is_same_life(job, barred->second.member) && now < barred->second.again_ms;
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

Seating seat_ring(const JobMembership& job, const std::vector<std::string>& names, Millis now) {
  return seat_at_least(std::max<int64_t>(job.min_nodes, 1), job, names, now);
}

std::vector<std::string> in_the_way(const JobMembership& job, Millis now) {
  if (job.rifts.empty() && job.barred.empty()) return {};
  std::vector<std::string> names;
  for (const auto& [worker, p] : job.participants) {
    if (!is_leaving(p) && (is_prepared(job, p) || is_member(job, p))) names.push_back(worker);
  }
  if (names.empty()) return {};
  std::ranges::sort(names, natural_less);
  return seat_at_least(1, job, names, now).waiting;
}

void note_waiting(Turn& turn, const Seating& seating) {
  const JobMembership& job = turn.job;
  for (const std::string& worker : seating.waiting) {
    const std::string& address = job.participants.at(worker).member.address;
    std::vector<std::string> others;
    Millis again_ms = 0;
    for (const auto& [key, rift] : job.rifts) {
      if (!concerns(key, worker) || !is_between_living(job, rift)) continue;
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

}  // namespace holdfast::rendezvous

#include "worker/step/load_balancer.h"

#include <fmt/format.h>

#include <algorithm>

#include "rendezvous/protocol/job_spec.h"

namespace holdfast::worker {
namespace {

int64_t median(std::vector<int64_t> values) {
  std::ranges::sort(values);
  return values[(values.size() - 1) / 2];
}

// The duration of a step that is dealt so.
int64_t makespan(std::span<const int64_t> counts, std::span<const int64_t> us) {
  int64_t longest = 0;
  for (size_t rank = 0; rank < counts.size(); ++rank) longest = std::max(longest, counts[rank] * us[rank]);
  return longest;
}

// One microbatch for each rank; then every further one for the rank that would be done with it first (Graham 1969, greedy
// list scheduling, which is optimal for equal tasks).
std::vector<int64_t> best_counts(int64_t microbatches, std::span<const int64_t> us) {
  std::vector<int64_t> counts(us.size(), 1);
  for (auto left = microbatches - static_cast<int64_t>(us.size()); left > 0; --left) {
    size_t best = 0;
    for (size_t rank = 1; rank < us.size(); ++rank) {
      const int64_t end = (counts[rank] + 1) * us[rank], best_end = (counts[best] + 1) * us[best];
      if (end < best_end || (end == best_end && counts[rank] < counts[best])) best = rank;
    }
    ++counts[best];
  }
  return counts;
}

std::string duration(int64_t us) {
  return us < 1000000 ? fmt::format("{:.0f} ms", static_cast<double>(us) / 1e3)
                      : fmt::format("{:.2f} s", static_cast<double>(us) / 1e6);
}

}  // namespace

LoadBalancer::LoadBalancer(int64_t microbatches, int world_size)
    : LoadBalancer(microbatches, std::vector<bool>(static_cast<size_t>(world_size), true)) {}

LoadBalancer::LoadBalancer(int64_t microbatches, std::vector<bool> computing)
    : microbatches_(microbatches), computing_(std::move(computing)) {
  const auto even = even_counts(microbatches, computing_);
  for (size_t rank = 0; rank < computing_.size(); ++rank) {
    if (!computing_[rank]) continue;
    ranks_.push_back(rank);
    even_.push_back(even[rank]);
  }
  counts_ = even_;
  shares_ = deal();
}

StepShares LoadBalancer::deal() const {
  std::vector<int64_t> by_rank(computing_.size());
  for (size_t i = 0; i < ranks_.size(); ++i) by_rank[ranks_[i]] = counts_[i];
  return deal_counts(by_rank);
}

std::vector<int64_t> LoadBalancer::medians() const {
  std::vector<int64_t> us;
  for (size_t i = 0; i < counts_.size(); ++i) {
    std::vector<int64_t> of_rank;
    for (const auto& step : window_) of_rank.push_back(step[i]);
    us.push_back(std::max<int64_t>(median(std::move(of_rank)), 1));
  }
  return us;
}

LoadBalancer::Change LoadBalancer::observe(const StepShares& computed, std::span<const int64_t> compute_us) {
  if (counts_.size() < 2 || microbatches_ < static_cast<int64_t>(counts_.size())) return {};
  // If a part of the step was kept from an earlier try, its times say little.
  if (computed.to_compute != shares_.to_compute || compute_us.size() != computing_.size()) return {};
  if (warm_up_left_ > 0) {
    --warm_up_left_;
    return {};
  }
  std::vector<int64_t> each;
  for (size_t i = 0; i < counts_.size(); ++i) each.push_back(std::max<int64_t>(compute_us[ranks_[i]], 0) / counts_[i]);
  window_.push_back(std::move(each));
  if (window_.size() < kWindow) return {};
  const auto us = medians();
  window_.clear();
  return deal_anew(us);
}

LoadBalancer::Change LoadBalancer::deal_anew(const std::vector<int64_t>& us) {
  auto best = best_counts(microbatches_, us);
  if (makespan(even_, us) * 100 <= makespan(best, us) * kEvenEnough) best = even_;
  // The even dealing is taken again as soon as it costs nothing, another dealing only for a clear gain.
  const bool even_again = best == even_ && counts_ != even_;
  if (!even_again && makespan(best, us) * 100 >= makespan(counts_, us) * kClearGain) return {};
  Change change{.changed = true, .slow = {}};
  const int64_t typical = median(us);
  for (size_t i = 0; i < us.size(); ++i) {
    if (best[i] >= even_[i]) continue;
    change.slow.push_back({static_cast<int>(ranks_[i]), us[i], typical, counts_[i], best[i], even_[i]});
  }
  counts_ = std::move(best);
  shares_ = deal();
  warm_up_left_ = 1;
  return change;
}

std::string in_words(const LoadBalancer::Change& change, std::span<const std::string> names, bool exact) {
  if (change.slow.empty()) return "no worker is slower than the others any more: microbatches are dealt evenly again";
  std::string text;
  for (const LoadBalancer::Slow& slow : change.slow) {
    const auto rank = static_cast<size_t>(slow.rank);
    const std::string who = rank < names.size() ? fmt::format("{} (rank {})", names[rank], rank) : fmt::format("rank {}", rank);
    text += fmt::format(
        "{}{} takes {} for a microbatch, the others about {} (median of {} steps): it computes {} of a "
        "step's microbatches, where {} would be its even share",
        text.empty() ? "" : "; ", who, duration(slow.us), duration(slow.median_us), LoadBalancer::kWindow, slow.now, slow.even);
  }
  return text + "; the others do the rest, " +
         (exact ? "and the bits do not change" : "and the float sums are taken in another order from here on");
}

}  // namespace holdfast::worker

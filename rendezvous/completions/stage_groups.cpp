#include "rendezvous/completions/stage_groups.h"

#include <algorithm>
#include <utility>

namespace holdfast::rendezvous {
namespace {

const HeldModel* held_by(const ReplicaReport& report, const std::string& source) {
  const auto found = std::ranges::find(report.held, source, &HeldModel::source);
  return found == report.held.end() || found->address.url.empty() ? nullptr : &*found;
}

const StagePlace::Earlier* earlier_in(const StagePlace& place, const std::string& source) {
  const auto found = std::ranges::find(place.earlier, source, &StagePlace::Earlier::source);
  return found == place.earlier.end() ? nullptr : &*found;
}

}  // namespace

void StageGroups::hear(const std::string& worker, const ReplicaReport& report) {
  if (const auto known = workers_.find(worker); known != workers_.end() && known->second.last.incarnation != report.incarnation)
    forget(worker);
  Worker& heard = workers_[worker];
  heard.last = report;
  if (heard.stage < 0 && report.place && report.place->stage >= 0 && report.place->stage < stages_)
    heard.stage = report.place->stage;
}

void StageGroups::set_leaving(const std::string& worker, bool is_leaving) {
  if (const auto found = workers_.find(worker); found != workers_.end()) found->second.is_leaving = is_leaving;
}

void StageGroups::forget(const std::string& worker) {
  workers_.erase(worker);
  for (auto& [name, other] : workers_) {
    if (std::ranges::find(other.earlier, worker) != other.earlier.end()) other.earlier.clear();
  }
}

void StageGroups::arrange(bool may_give_stages) {
  if (may_give_stages) give_stages();
  form_groups();
}

// A stage that has too few workers for the groups that there could be gets one that another stage has too many of: of these one
// is in no group, for there are no more groups than the poorest stage has workers.
void StageGroups::give_stages() {
  for (auto& [name, worker] : workers_) {
    if (worker.is_leaving || worker.stage >= 0) continue;
    const std::vector<int64_t> of_stage = counts();
    worker.stage = std::ranges::min_element(of_stage) - of_stage.begin();
  }
  form_groups();  // of those that were in one, which may be no more
  while (true) {
    const std::vector<int64_t> of_stage = counts();
    int64_t staying = 0;
    for (const int64_t count : of_stage) staying += count;
    const auto poorest = std::ranges::min_element(of_stage), richest = std::ranges::max_element(of_stage);
    if (*poorest >= staying / stages_) return;
    workers_.at(spare(richest - of_stage.begin())).stage = poorest - of_stage.begin();
  }
}

void StageGroups::form_groups() {
  for (auto& [name, worker] : workers_) {
    if (!is_whole(worker)) worker.earlier.clear();
  }
  while (true) {
    const std::string last = spare(stages_ - 1);
    std::vector<std::string> earlier;
    for (int64_t stage = 0; stage < stages_ - 1; ++stage) earlier.push_back(spare(stage));
    if (last.empty() || std::ranges::find(earlier, "") != earlier.end()) return;
    workers_.at(last).earlier = std::move(earlier);
  }
}

bool StageGroups::is_whole(const Worker& last) const {
  if (last.is_leaving || last.stage != stages_ - 1 || last.earlier.empty()) return false;
  if (!last.last.unreadable.empty() && has_better(last)) return false;
  for (size_t stage = 0; stage < last.earlier.size(); ++stage) {
    const auto found = workers_.find(last.earlier[stage]);
    if (found == workers_.end() || found->second.is_leaving || found->second.stage != static_cast<int64_t>(stage)) return false;
    const bool fails = !found->second.last.unreadable.empty() || is_unreached(found->second, last);
    if (fails && has_better(found->second)) return false;
  }
  return true;
}

bool StageGroups::is_unreached(const Worker& worker, const Worker& by) {
  return std::ranges::any_of(worker.last.held, [&](const HeldModel& model) {
    const auto& unreached = by.last.unreached;
    return !model.address.url.empty() && std::ranges::find(unreached, model.address.url) != unreached.end();
  });
}

bool StageGroups::is_of_use(const Worker& worker) const {
  return worker.last.unreadable.empty() &&
         std::ranges::none_of(workers_, [&](const auto& entry) { return is_unreached(worker, entry.second); });
}

bool StageGroups::has_better(const Worker& worker) const {
  const std::string other = spare(worker.stage);
  return !other.empty() && is_of_use(workers_.at(other)) && !workers_.at(other).last.held.empty();
}

bool StageGroups::is_in_a_group(const std::string& worker) const {
  return std::ranges::any_of(workers_, [&](const auto& entry) {
    const auto& [name, other] = entry;
    return !other.earlier.empty() && (name == worker || std::ranges::find(other.earlier, worker) != other.earlier.end());
  });
}

std::vector<int64_t> StageGroups::counts() const {
  std::vector<int64_t> of_stage(static_cast<size_t>(stages_));
  for (const auto& [name, worker] : workers_) {
    if (!worker.is_leaving && worker.stage >= 0) ++of_stage[static_cast<size_t>(worker.stage)];
  }
  return of_stage;
}

std::string StageGroups::spare(int64_t stage) const {
  const auto rank = [this](const Worker& worker) { return std::pair(is_of_use(worker), worker.last.held.size()); };
  std::string best;
  for (const auto& [name, worker] : workers_) {
    if (worker.is_leaving || worker.stage != stage || is_in_a_group(name)) continue;
    if (best.empty() || rank(worker) > rank(workers_.at(best))) best = name;
  }
  return best;
}

std::vector<std::string> StageGroups::workers() const {
  std::vector<std::string> names;
  for (const auto& [name, worker] : workers_) names.push_back(name);
  return names;
}

bool StageGroups::is_last(const std::string& worker) const {
  const auto found = workers_.find(worker);
  return found != workers_.end() && found->second.stage == stages_ - 1;
}

std::optional<StagePlace> StageGroups::place_of(const std::string& worker) const {
  const auto found = workers_.find(worker);
  if (found == workers_.end() || found->second.stage < 0) return std::nullopt;
  StagePlace place{.stage = found->second.stage};
  if (found->second.earlier.empty()) return place;
  std::vector<const ReplicaReport*> reports;
  for (const std::string& name : found->second.earlier) {
    const Worker& earlier = workers_.at(name);
    if (!earlier.last.place || earlier.last.place->stage != earlier.stage) return place;  // it speaks of other layers
    reports.push_back(&earlier.last);
  }
  for (const HeldModel& model : reports.front()->held) {
    StagePlace::Earlier ready{.source = model.source, .stages = {}};
    for (const ReplicaReport* report : reports) {
      if (const HeldModel* held = held_by(*report, model.source)) ready.stages.push_back(held->address);
    }
    if (ready.stages.size() == reports.size()) place.earlier.push_back(std::move(ready));
  }
  return place;
}

std::vector<HeldModel> StageGroups::ready_in_group(const std::string& worker) const {
  std::vector<HeldModel> ready;
  const auto found = workers_.find(worker);
  if (found == workers_.end() || found->second.earlier.empty()) return ready;
  const ReplicaReport& report = found->second.last;
  const StagePlace now = *place_of(worker);
  if (!report.place || report.place->stage != now.stage) return ready;
  for (const HeldModel& model : report.held) {
    const auto* const said = earlier_in(*report.place, model.source);
    const auto* const is = earlier_in(now, model.source);
    if (said != nullptr && is != nullptr && *said == *is) ready.push_back(model);
  }
  return ready;
}

bool StageGroups::is_unreadable(const std::string& source) const {
  const auto says_so = [&](const std::string& worker) {
    const auto& unreadable = workers_.at(worker).last.unreadable;
    return std::ranges::find(unreadable, source, &UnreadableModel::source) != unreadable.end();
  };
  bool has_groups = false;
  for (const auto& [name, worker] : workers_) {
    if (worker.earlier.empty()) continue;
    has_groups = true;
    if (!says_so(name) && std::ranges::none_of(worker.earlier, says_so)) return false;
  }
  return has_groups;
}

std::vector<std::string> StageGroups::group_of(const std::string& worker) const {
  const auto found = workers_.find(worker);
  if (found == workers_.end() || found->second.earlier.empty()) return {};
  std::vector<std::string> group = found->second.earlier;
  group.push_back(worker);
  return group;
}

}  // namespace holdfast::rendezvous

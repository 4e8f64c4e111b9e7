#include "rendezvous/completions/replicas.h"

#include <algorithm>
#include <utility>

namespace holdfast::rendezvous {

void Replicas::hear(const std::string& worker, const ReplicaReport& report) {
  Known& known = known_[worker];
  known.wanted = report.wanted;
  known.place = report.place;
  known.is_fresh = true;
  if (groups_) return groups_->hear(worker, report);
  if (!report.held.empty()) pool_.hear(worker, report);
}

void Replicas::aim(Millis now, const std::string& newest, bool is_gone) {
  note_reached(now);
  if (newest == aim_) return;
  const HeldModel* const answers = answering();
  const bool is_reached = answers != nullptr && answers->source == aim_;
  if (!aim_.empty() && !is_gone && !is_hopeless()) {  // newcomers must be able to read it
    if (is_reached && !may_go_on(now)) return;
    if (!is_reached && now < aimed_ms_ + patience_ms_) return;
    if (!is_reached && answers != nullptr) patience_ms_ = std::min(2 * patience_ms_, kPatienceMaxMs);
  }
  aim_ = newest;
  aimed_ms_ = now;
}

// A replica has memory for two models: those that texts were begun with go first. And those that read more slowly than half get
// as long again.
bool Replicas::may_go_on(Millis now) const {
  for (const std::string& source : pool_.sources_in_use()) {
    if (source != aim_) return false;
  }
  return pool_.lacking(aim_) <= unable() || now >= reached_ms_ + std::min(reached_ms_ - aimed_ms_, kSlowMaxMs);
}

// The next one is waited for twice as long as this one took.
void Replicas::note_reached(Millis now) {
  if (aim_.empty() || reached_ == aim_) return;
  const HeldModel* const model = pool_.answering(aim_);
  if (model == nullptr || model->source != aim_) return;
  reached_ = aim_;
  reached_ms_ = now;
  patience_ms_ = std::clamp(2 * (now - aimed_ms_), kPatienceMs, kPatienceMaxMs);
}

bool Replicas::is_hopeless() const {
  if (groups_ && groups_->is_unreadable(aim_)) return true;
  const auto count = static_cast<int64_t>(workers().size());
  return 2 * (count - unable()) < count || count == 0;
}

int64_t Replicas::unable() const {
  if (groups_) return 0;
  return std::ranges::count(pool_.unreadable(), aim_, &UnreadableModel::source);
}

const HeldModel* Replicas::answering() const {
  const HeldModel* const model = pool_.answering(aim_);
  return model != nullptr && model->source == aim_ ? model : pool_.answering(reached_);
}

void Replicas::tend(Millis now, const PresenceOf& presence_of, bool may_give_stages) {
  look_who_is_there(presence_of);
  if (!groups_) return pool_.tend(now);
  groups_->arrange(may_give_stages);
  tell_of_groups();
  pool_.tend(now, [this](const std::string& source) { return groups_->is_unreadable(source); });
}

// A replica that is to go gives its texts away before it goes.
void Replicas::look_who_is_there(const PresenceOf& presence_of) {
  for (const std::string& worker : workers()) {
    const Presence presence = presence_of(worker, groups_ ? groups_->incarnation_of(worker) : pool_.incarnation_of(worker));
    if (presence == Presence::kGone) {
      if (groups_) groups_->forget(worker);
      pool_.forget(worker);
      known_.erase(worker);
      continue;
    }
    if (groups_) groups_->set_leaving(worker, presence == Presence::kLeaves);
    if (presence == Presence::kLeaves) {
      pool_.retire(worker);
    } else {
      pool_.keep(worker);
    }
  }
}

void Replicas::tell_of_groups() {
  for (const std::string& worker : groups_->workers()) {
    Known& known = known_[worker];
    std::vector<HeldModel> ready = groups_->ready_in_group(worker);
    const bool is_fresh = std::exchange(known.is_fresh, false);
    if (!is_fresh && ready == known.ready) continue;
    if (ready.empty()) {
      pool_.forget(worker);
    } else {
      ReplicaReport report = groups_->report_of(worker);
      report.held = ready;
      pool_.hear(worker, report);
    }
    known.ready = std::move(ready);
  }
}

std::vector<std::string> Replicas::group_of(const std::string& worker) const {
  return groups_ ? groups_->group_of(worker) : std::vector<std::string>{worker};
}

std::vector<std::string> Replicas::wanted() const {
  std::vector<std::string> all = {aim_};
  const auto add = [&](const std::string& source) {
    if (std::ranges::find(all, source) == all.end()) all.push_back(source);
  };
  if (const HeldModel* answers = answering()) add(answers->source);
  for (const std::string& source : pool_.sources_in_use()) add(source);
  return all;
}

bool Replicas::is_news(const std::string& worker, const std::vector<std::string>& wanted) const {
  const auto known = known_.find(worker);
  if (known == known_.end()) return false;  // it is gone
  if (known->second.wanted != wanted) return true;
  const auto place = groups_ ? groups_->place_of(worker) : std::nullopt;
  return place && known->second.place != place;
}

ReplicaOrders Replicas::orders_for(const std::string& worker, int64_t have, std::vector<std::string> wanted) {
  return {.orders = pool_.orders_for(worker, have),
          .wanted = std::move(wanted),
          .place = groups_ ? groups_->place_of(worker) : std::nullopt};
}

}  // namespace holdfast::rendezvous

#include "rendezvous/api/turn/long_polls.h"

namespace holdfast::rendezvous {

void LongPolls::add(Poll poll, Millis now) {
  std::vector<Poll>& of_worker = by_worker_[poll.worker];
  for (Poll& older : of_worker) {
    deadlines_.extract({older.deadline_ms, older.worker});
    older.deadline_ms = now;
    deadlines_.emplace(now, older.worker);
  }
  deadlines_.emplace(poll.deadline_ms, poll.worker);
  fresh_.insert(poll.worker);
  of_worker.push_back(std::move(poll));
}

void LongPolls::show(const std::string& worker, const Answer& answer) {
  const auto found = by_worker_.find(worker);
  if (found == by_worker_.end()) return;
  std::erase_if(found->second, [&](const Poll& poll) {
    if (!answer(poll)) return false;
    deadlines_.extract({poll.deadline_ms, poll.worker});
    return true;
  });
  if (found->second.empty()) by_worker_.erase(found);
}

void LongPolls::look(const std::set<std::string>& touched, Millis now, const Answer& answer) {
  std::set<std::string> workers = std::exchange(fresh_, {});
  for (auto due = deadlines_.begin(); due != deadlines_.end() && due->first <= now; ++due) workers.insert(due->second);
  workers.insert(touched.begin(), touched.end());
  for (const std::string& worker : workers) show(worker, answer);
}

void LongPolls::close(const Answer& answer) {
  for (const auto& [worker, polls] : std::exchange(by_worker_, {})) {
    for (const Poll& poll : polls) answer(poll);
  }
  deadlines_.clear();
  fresh_.clear();
}

}  // namespace holdfast::rendezvous

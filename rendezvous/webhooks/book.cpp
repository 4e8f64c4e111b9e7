#include "rendezvous/webhooks/book.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "rendezvous/client/retry.h"

namespace holdfast::rendezvous {
namespace {

constexpr int64_t kFirstPauseMs = 5'000, kPauseMaxMs = 3'600'000, kGiveUpMs = 24 * 3'600'000;

int64_t pause_after(int64_t tries) {
  return std::min(kPauseMaxMs, kFirstPauseMs << std::min<int64_t>(tries - 1, 20));
}

// Statuses after which another try does not help. A time-out (408) and too many requests (429) are none of them.
bool refuses_for_good(int status) {
  return status >= 400 && !is_worth_repeating(status);
}

}  // namespace

WebhookBook::WebhookBook(StoredWebhooks stored) : last_number_(stored.last_number), last_delivery_(stored.last_delivery) {
  for (WebhookRow& row : stored.rows) {
    queues_[row.id];
    hooks_[row.id] = std::move(row);
  }
  for (DeliveryRow& row : stored.deliveries) {
    if (const auto found = queues_.find(row.webhook); found != queues_.end()) found->second.waiting.push_back(std::move(row));
  }
}

const DeliveryOutcome* WebhookBook::last_outcome(const std::string& id) const {
  const auto found = queues_.find(id);
  return found == queues_.end() || !found->second.last ? nullptr : &*found->second.last;
}

int64_t WebhookBook::waiting(const std::string& id) const {
  const auto found = queues_.find(id);
  return found == queues_.end() ? 0 : static_cast<int64_t>(found->second.waiting.size());
}

WebhookRow& WebhookBook::add(WebhookRow row) {
  row.id = fmt::format("w{}", ++last_number_);
  queues_[row.id];
  return hooks_[row.id] = std::move(row);
}

void WebhookBook::remove(const std::string& id) {
  hooks_.erase(id);
  queues_.erase(id);
}

WebhookBook::Noted WebhookBook::note_change(const std::string& state, const std::string& body, int64_t wall_ms) {
  Noted noted;
  for (const auto& [id, hook] : hooks_) {
    if (!hook.states.empty() && std::ranges::find(hook.states, state) == hook.states.end()) continue;
    Queue& queue = queues_[id];
    while (queue.waiting.size() >= kWaitingMax) {
      const auto oldest = queue.waiting.begin() + (queue.under_way ? 1 : 0);
      noted.dropped.push_back(oldest->id);
      if (queue.lost++ == 0) noted.begun_to_lose.push_back(id);
      queue.waiting.erase(oldest);
    }
    noted.made.push_back(queue.waiting.emplace_back(DeliveryRow{++last_delivery_, id, body, wall_ms, wall_ms, 0}));
  }
  return noted;
}

std::optional<DeliveryRow> WebhookBook::take_due(int64_t wall_ms) {
  for (auto& [id, queue] : queues_) {
    if (queue.under_way || queue.waiting.empty() || queue.waiting.front().due_ms > wall_ms) continue;
    queue.under_way = true;
    return queue.waiting.front();
  }
  return std::nullopt;
}

WebhookBook::Recorded WebhookBook::record(int64_t delivery, const DeliveryOutcome& outcome) {
  const auto found = std::ranges::find_if(
      queues_, [&](const auto& entry) { return entry.second.under_way && entry.second.waiting.front().id == delivery; });
  if (found == queues_.end()) return {};
  Queue& queue = found->second;
  queue.under_way = false;
  Recorded recorded;
  recorded.taken = outcome.error.empty();
  recorded.begins_to_fail = !recorded.taken && (!queue.last || queue.last->error.empty());
  queue.last = outcome;
  DeliveryRow& row = queue.waiting.front();
  ++row.tries;
  row.due_ms = outcome.time_ms + pause_after(row.tries);
  recorded.row = row;
  if (recorded.taken) {
    recorded.lost = std::exchange(queue.lost, 0);
    queue.waiting.pop_front();
    return recorded;
  }
  const int64_t next_ms = recorded.row.due_ms;
  bool drop = refuses_for_good(outcome.status) && row.tries >= kRefusedTriesMax;
  // A receiver that took nothing for a day is not tried with each delivery that waited as long.
  while (!queue.waiting.empty() && (drop || next_ms > queue.waiting.front().made_ms + kGiveUpMs)) {
    recorded.dropped.push_back(queue.waiting.front().id);
    queue.waiting.pop_front();
    drop = false;
  }
  recorded.begins_to_lose = !recorded.dropped.empty() && queue.lost == 0;
  queue.lost += static_cast<int64_t>(recorded.dropped.size());
  return recorded;
}

}  // namespace holdfast::rendezvous

#include "rendezvous/api/webhook_sender.h"

#include <fmt/format.h>

#include "rendezvous/api/answers/views.h"
#include "rendezvous/protocol/messages.h"

namespace holdfast::rendezvous {
namespace {

using Json = nlohmann::json;

constexpr int kSenders = 2;
constexpr size_t kDeliveriesWaitingMax = 256;

}  // namespace

WebhookSender::WebhookSender(Turn& turn, StoredWebhooks stored)
    : turn_(turn), book_(std::move(stored)), pool_(kSenders, kDeliveriesWaitingMax) {}

void WebhookSender::note_changes() {
  for (const StateChange& change : turn_.state.journal().take_state_changes()) {
    if (book_.all().empty()) continue;
    const Job* job = turn_.state.find_job(change.job);
    if (job == nullptr) continue;
    Json shown = summarize_job(turn_.state, *job);
    shown["state"] = job_state_name(change.to);
    shown["reason"] = change.reason;
    const std::string body = json_text({{"event", "job_state_changed"},
                                        {"time", time_json(change.time_ms)},
                                        {"from", job_state_name(change.from)},
                                        {"to", job_state_name(change.to)},
                                        {"job", std::move(shown)}});
    const WebhookBook::Noted noted = book_.note_change(job_state_name(change.to), body, change.time_ms);
    for (const DeliveryRow& row : noted.made) turn_.state.journal().write().save_delivery(row);
    for (const int64_t id : noted.dropped) turn_.state.journal().write().remove_delivery(id);
    for (const std::string& id : noted.begun_to_lose) {
      turn_.state.journal().record(
          {"webhook_given_up", fmt::format("{}: more than {} deliveries wait for it: the oldest are dropped until it takes one",
                                           id, WebhookBook::kWaitingMax)});
    }
  }
}

void WebhookSender::send_due() {
  while (const auto row = book_.take_due(turn_.clock.wall_ms())) {
    const auto tell = [this, id = row->id](const DeliveryOutcome& outcome) {
      turn_.commands->add_result([this, id, outcome] { record(id, outcome); });
    };
    const auto sending = [this, tell, delivery = *row, hook = book_.all().at(row->webhook)] {
      tell(deliver(hook, delivery, turn_.clock.wall_ms(), clients_));
    };
    const bool posted = pool_.post(sending, [this, tell](const std::string& why) { tell({turn_.clock.wall_ms(), 0, why}); });
    if (!posted) return record(row->id, {turn_.clock.wall_ms(), 0, "too many are being sent"});
  }
}

void WebhookSender::record(int64_t id, const DeliveryOutcome& outcome) {
  const WebhookBook::Recorded recorded = book_.record(id, outcome);
  const DeliveryRow& row = recorded.row;
  if (row.id == 0) return;
  for (const int64_t dropped : recorded.dropped) turn_.state.journal().write().remove_delivery(dropped);
  if (recorded.taken) {
    turn_.state.journal().write().remove_delivery(id);
  } else if (recorded.dropped.empty()) {
    turn_.state.journal().write().save_delivery(row);
  }
  if (recorded.begins_to_fail && recorded.dropped.empty()) {
    turn_.state.journal().record({"webhook_failing", fmt::format("{}: delivery {} was not taken and is tried again: {}",
                                                                 row.webhook, id, outcome.error)});
  }
  if (recorded.begins_to_lose) {
    const size_t others = recorded.dropped.size() - 1;
    turn_.state.journal().record(
        {"webhook_given_up",
         fmt::format("{}: delivery {} was tried {} times and is dropped{}: {}. What it loses from here on is told when "
                     "it takes one",
                     row.webhook, id, row.tries,
                     others == 0 ? std::string() : fmt::format(", with {} that waited behind it", others), outcome.error)});
  }
  if (recorded.lost > 0) {
    turn_.state.journal().record(
        {"webhook_recovered", fmt::format("{}: delivery {} was taken; {} before it {} dropped", row.webhook, id, recorded.lost,
                                          recorded.lost == 1 ? "was" : "were")});
  }
}

}  // namespace holdfast::rendezvous

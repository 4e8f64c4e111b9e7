// Routes of workers: they register, report, and hold a long-poll open for their directive.
#include <fmt/format.h>

#include <algorithm>

#include "rendezvous/service_impl.h"
#include "rendezvous/text_bounds.h"
#include "rendezvous/views.h"

namespace holdfast::rendezvous {
namespace {

constexpr int64_t kWaitMaxMs = 60000;
constexpr size_t kLogLinesMax = 10000;

}  // namespace

void Service::Impl::post_worker(Call& call) {
  const auto request = read_body<RegisterRequest>(call.request);
  if (!request) return answer(call, request.error());
  const auto reply = state_.register_worker(*request, options_.service_id);
  if (!reply) return answer(call, reply.error());
  answer(call, json_answer(200, nlohmann::json(*reply)));
}

void Service::Impl::post_status(Call& call) {
  auto status = read_body<WorkerStatus>(call.request);
  if (!status) return answer(call, status.error());
  status->reason = shortened(std::move(status->reason), kReasonBytesMax);
  const auto reply = state_.report_status(call.arguments[0], *status);
  if (!reply) return answer(call, reply.error());
  answer(call, json_answer(200, nlohmann::json(*reply)));
}

void Service::Impl::get_directive(Call& call) {
  const auto wait_ms = integer_query(call.request, "wait_ms", 0, INT64_MAX, 0);
  if (!wait_ms) return answer(call, wait_ms.error());
  const std::string worker = call.arguments[0], incarnation = text_query(call.request, "incarnation");
  if (const auto polled = state_.polled(worker, incarnation); !polled) return answer(call, polled.error());
  const Millis now = clock_.steady_ms();
  // Looked at in this turn, when all commands have had their say.
  polls_.add({call.reply, worker, incarnation, text_query(call.request, "have"), now + std::min(*wait_ms, kWaitMaxMs)}, now);
}

// One whose lease ended is told nothing while its old poll is still open: its job may yet take it back with what it holds,
// once it speaks again.
void Service::Impl::release_polls() {
  const Millis now = clock_.steady_ms();
  polls_.look(state_.take_touched(), now, [&](const LongPolls::Poll& poll) {
    if (const auto over = state_.ended(poll.worker, poll.incarnation)) {
      outbox_.emplace_back(poll.reply, problem_answer(*over));
    } else if (const auto directive = state_.news_for(poll.worker, poll.have)) {
      outbox_.emplace_back(poll.reply, json_answer(200, nlohmann::json(*directive)));
    } else if (now >= poll.deadline_ms) {
      outbox_.emplace_back(poll.reply, empty_answer());
    } else {
      return false;
    }
    return true;
  });
}

void Service::Impl::post_lost(Call& call) {
  auto message = read_body<WorkerLost>(call.request);
  if (!message) return answer(call, message.error());
  message->reason = shortened(std::move(message->reason), kReasonBytesMax);
  if (message->last_lines.size() > kLastLinesMax) {
    return answer(call, bad_field("last_lines",
                                  fmt::format("{} lines, at most {} are taken", message->last_lines.size(), kLastLinesMax)));
  }
  answer_empty(call, state_.worker_lost(*message));
}

void Service::Impl::post_worker_logs(Call& call) {
  const auto batch = read_body<LogBatch>(call.request);
  if (!batch) return answer(call, batch.error());
  if (batch->lines.size() > kLogLinesMax) {
    return answer(call, bad_field("lines", fmt::format("{} lines in one batch, at most {} are taken", batch->lines.size(),
                                                       kLogLinesMax)));
  }
  answer_empty(call, state_.logs(call.arguments[0], *batch));
}

void Service::Impl::post_progress(Call& call) {
  auto message = read_body<Progress>(call.request);
  if (!message) return answer(call, message.error());
  message->failure = shortened(std::move(message->failure), kReasonBytesMax);
  answer_empty(call, state_.progress(call.arguments[0], *message));
}

void Service::Impl::post_fault(Call& call) {
  auto message = read_body<FaultReport>(call.request);
  if (!message) return answer(call, message.error());
  message->kind = shortened(std::move(message->kind), kReasonBytesMax);
  message->detail = shortened(std::move(message->detail), kReasonBytesMax);
  answer_empty(call, state_.fault(call.arguments[0], *message));
}

void Service::Impl::post_checkpoint(Call& call) {
  const auto message = read_body<CheckpointRecord>(call.request);
  if (!message) return answer(call, message.error());
  const auto taken = state_.checkpoint(call.arguments[0], *message);
  if (!taken) return answer(call, taken.error());
  answer(call, json_answer(201, show_checkpoint(*state_.find_job(call.arguments[0]), *message)));
}

void Service::Impl::post_job_event(Call& call) {
  const auto message = read_body<WorkerEvent>(call.request);
  if (!message) return answer(call, message.error());
  answer_empty(call, state_.worker_event(call.arguments[0], *message));
}

void Service::Impl::get_nodes(Call& call) {
  const auto page = page_of(call.request);
  if (!page) return answer(call, page.error());
  std::vector<const Worker*> all;
  for (const auto& [id, worker] : state_.workers()) all.push_back(&worker);
  std::ranges::sort(all,
                    [](const Worker* a, const Worker* b) { return natural_less(a->registration.name, b->registration.name); });
  nlohmann::json list = nlohmann::json::array();
  const auto begin = static_cast<size_t>(page->after);
  for (size_t i = begin; i < all.size() && i < begin + static_cast<size_t>(page->limit); ++i)
    list.push_back(show_worker(state_, *all[i]));
  const int64_t next = begin + list.size() < all.size() ? page->after + page->limit : 0;
  answer(call, json_answer(200, {{"nodes", std::move(list)}, {"next_page_token", next_page_token(next)}}));
}

void Service::Impl::post_drain(Call& call) {
  const auto drained = state_.drain(call.arguments[0]);
  if (!drained) return answer(call, drained.error());
  answer(call, json_answer(202, show_worker(state_, state_.workers().at(call.arguments[0]))));
}

}  // namespace holdfast::rendezvous

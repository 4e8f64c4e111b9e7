#include "rendezvous/api/workers.h"

#include <fmt/format.h>

#include <algorithm>

#include "rendezvous/api/answers/answers.h"
#include "rendezvous/api/answers/problems.h"
#include "rendezvous/api/answers/views.h"
#include "rendezvous/queries/needed_checkpoints.h"
#include "rendezvous/text/natural_order.h"
#include "rendezvous/text/text_bounds.h"

namespace holdfast::rendezvous {
namespace {

constexpr int64_t kWaitMaxMs = 60000;
constexpr size_t kLogLinesMax = 10000;

}  // namespace

void WorkersApi::post_worker(Call& call) {
  const auto request = read_body<RegisterRequest>(call.request);
  if (!request) return call.answer(request.error());
  const auto reply = turn_.state.register_worker(*request, service_id_);
  if (!reply) return call.answer(reply.error());
  call.answer(json_answer(200, nlohmann::json(*reply)));
}

void WorkersApi::post_status(Call& call) {
  auto heartbeat = read_body<Heartbeat>(call.request);
  if (!heartbeat) return call.answer(heartbeat.error());
  heartbeat->status.reason = shortened(std::move(heartbeat->status.reason), kReasonBytesMax);
  const auto reply = turn_.state.report_status(call.arguments[0], heartbeat->status, heartbeat->load);
  if (!reply) return call.answer(reply.error());
  call.answer(json_answer(200, nlohmann::json(*reply)));
}

void WorkersApi::get_directive(Call& call) {
  const auto wait_ms = integer_query(call.request, "wait_ms", 0, INT64_MAX, 0);
  if (!wait_ms) return call.answer(wait_ms.error());
  const std::string worker = call.arguments[0], incarnation = text_query(call.request, "incarnation");
  if (const auto polled = turn_.state.begin_poll(worker, incarnation); !polled) return call.answer(polled.error());
  const Millis now = turn_.clock.steady_ms();
  // release_polls() looks at it in this turn, after all commands.
  polls_.add({call.reply, worker, incarnation, text_query(call.request, "have"), now + std::min(*wait_ms, kWaitMaxMs)}, now);
}

// A worker whose lease ended is told nothing while its old poll is still open: once it speaks again, its job may take it back
// with the state that it holds.
void WorkersApi::release_polls() {
  const Millis now = turn_.clock.steady_ms();
  polls_.look(turn_.state.take_workers_to_notify(), now, [&](const LongPolls::Poll& poll) {
    if (const auto over = turn_.state.refusal_if_ended(poll.worker, poll.incarnation)) {
      turn_.replies.add(poll.reply, problem_answer(problem_of(*over)));
    } else if (const auto directive = turn_.state.news_for(poll.worker, poll.have)) {
      turn_.replies.add(poll.reply, json_answer(200, nlohmann::json(*directive)));
    } else if (now >= poll.deadline_ms) {
      turn_.replies.add(poll.reply, empty_answer());
    } else {
      return false;
    }
    return true;
  });
}

void WorkersApi::post_lost(Call& call) {
  auto message = read_body<WorkerLost>(call.request);
  if (!message) return call.answer(message.error());
  message->reason = shortened(std::move(message->reason), kReasonBytesMax);
  if (message->last_lines.size() > kLastLinesMax) {
    return call.answer(
        bad_field("last_lines", fmt::format("{} lines, at most {} are taken", message->last_lines.size(), kLastLinesMax)));
  }
  call.answer_empty(turn_.state.report_lost(*message));
}

void WorkersApi::post_worker_logs(Call& call) {
  const auto batch = read_body<LogBatch>(call.request);
  if (!batch) return call.answer(batch.error());
  if (batch->lines.size() > kLogLinesMax) {
    return call.answer(
        bad_field("lines", fmt::format("{} lines in one batch, at most {} are taken", batch->lines.size(), kLogLinesMax)));
  }
  call.answer_empty(turn_.state.take_logs(call.arguments[0], *batch));
}

void WorkersApi::post_progress(Call& call) {
  auto message = read_body<Progress>(call.request);
  if (!message) return call.answer(message.error());
  message->failure = shortened(std::move(message->failure), kReasonBytesMax);
  call.answer_empty(turn_.state.record_progress(call.arguments[0], *message));
}

void WorkersApi::post_fault(Call& call) {
  auto message = read_body<FaultReport>(call.request);
  if (!message) return call.answer(message.error());
  message->kind = shortened(std::move(message->kind), kReasonBytesMax);
  message->detail = shortened(std::move(message->detail), kReasonBytesMax);
  call.answer_empty(turn_.state.report_fault(call.arguments[0], *message));
}

void WorkersApi::post_checkpoint(Call& call) {
  const auto message = read_body<CheckpointRecord>(call.request);
  if (!message) return call.answer(message.error());
  const auto taken = turn_.state.register_checkpoint(call.arguments[0], *message);
  if (!taken) return call.answer(taken.error());
  const Job& job = *turn_.state.find_job(call.arguments[0]);
  nlohmann::json answer = show_checkpoint(job, *message);
  answer.update(nlohmann::json(CheckpointReply{checkpoints_others_need(turn_.state, job)}));
  call.answer(json_answer(201, answer));
}

void WorkersApi::post_job_event(Call& call) {
  const auto message = read_body<WorkerEvent>(call.request);
  if (!message) return call.answer(message.error());
  call.answer_empty(turn_.state.record_event(call.arguments[0], *message));
}

void WorkersApi::get_nodes(Call& call) {
  const auto page = page_of(call.request);
  if (!page) return call.answer(page.error());
  std::vector<const Worker*> all;
  for (const auto& [id, worker] : turn_.state.workers()) all.push_back(&worker);
  std::ranges::sort(all,
                    [](const Worker* a, const Worker* b) { return natural_less(a->registration.name, b->registration.name); });
  nlohmann::json list = nlohmann::json::array();
  const auto begin = static_cast<size_t>(page->after);
  for (size_t i = begin; i < all.size() && i < begin + static_cast<size_t>(page->limit); ++i)
    list.push_back(show_worker(turn_.state, *all[i]));
  const int64_t next = begin + list.size() < all.size() ? page->after + page->limit : 0;
  call.answer(json_answer(200, {{"nodes", std::move(list)}, {"next_page_token", next_page_token(next)}}));
}

void WorkersApi::post_drain(Call& call) {
  const auto drained = turn_.state.drain(call.arguments[0]);
  if (!drained) return call.answer(drained.error());
  call.answer(json_answer(202, show_worker(turn_.state, turn_.state.workers().at(call.arguments[0]))));
}

void WorkersApi::close() {
  const HttpResponse goodbye = problem_answer(problem(503, "unavailable", "the service is stopping: try again"));
  polls_.close([&](const LongPolls::Poll& poll) {
    poll.reply(goodbye);
    return true;
  });
}

}  // namespace holdfast::rendezvous

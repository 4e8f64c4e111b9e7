#include "rendezvous/api/feeds/lists.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "rendezvous/api/answers/answers.h"
#include "rendezvous/api/answers/problems.h"
#include "rendezvous/api/answers/views.h"

namespace holdfast::rendezvous {
namespace {

using Json = nlohmann::json;

constexpr const char* kListNames[] = {"events", "logs", "metrics"};
constexpr int64_t kCurvePointsMin = 2;

}  // namespace

void ListsApi::list_or_follow(Call& call, Feed feed) {
  // A request for the newest N lines gets all of them in one page.
  const auto page = page_of(call.request, call.request.query.contains("tail") ? kPageRowsMax : kPageRows);
  if (!page) return call.answer(page.error());
  int64_t after = page->after;
  const auto follows = flag_query(call.request, "follow");
  if (!follows) return call.answer(follows.error());
  if (const auto last = call.request.headers.find("last-event-id");
      *follows && last != call.request.headers.end() && !last->second.empty()) {
    const std::string& text = last->second;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), after);
    if (error != std::errc() || end != text.data() + text.size() || after < 0) {
      return call.answer(
          bad_field("Last-Event-ID", fmt::format("must be an id that this stream sent, not \"{}\"", text.substr(0, 40))));
    }
  }
  const auto place =
      place_in_feed(state_.journal().store(), call.request, feed, call.arguments.empty() ? "" : call.arguments[0], after);
  if (!place) return call.answer(place.error());
  if (*follows) return followers_.follow(call, *place);
  FeedRows found = read_feed(state_.journal().store(), *place, page->limit);
  Json list = Json::array();
  for (FeedRow& row : found.rows) list.push_back(std::move(row.json));
  Json body = {{kListNames[static_cast<size_t>(feed)], std::move(list)},
               {"next_page_token", next_page_token(found.more ? found.read_to : 0)}};
  if (feed == Feed::kMetrics) {
    const int64_t folded = state_.journal().store().records().folded_to(place->job);
    body["folded_before_step"] = folded > 0 ? Json(folded + 1) : Json(nullptr);
  }
  call.answer(json_answer(200, body));
}

void ListsApi::show_curve(Call& call) {
  const auto points = integer_query(call.request, "points", kCurvePointsMin, kCurvePointsMax, kCurvePointsMin);
  if (!points) return call.answer(points.error());
  HttpResponse response;
  JobStore& store = state_.journal().store();
  response.body =
      curve_text(store.records().curve(call.arguments[0], *points), store.records().newest_step_id(call.arguments[0]));
  call.answer(std::move(response));
}

void ListsApi::get_events(Call& call) {
  if (need_job(state_, call) != nullptr) list_or_follow(call, Feed::kEvents);
}
void ListsApi::get_all_events(Call& call) {
  list_or_follow(call, Feed::kEvents);
}
void ListsApi::get_logs(Call& call) {
  if (need_job(state_, call) != nullptr) list_or_follow(call, Feed::kLogs);
}
void ListsApi::get_metrics(Call& call) {
  if (need_job(state_, call) == nullptr) return;
  call.request.query.contains("points") ? show_curve(call) : list_or_follow(call, Feed::kMetrics);
}

void ListsApi::get_checkpoints(Call& call) {
  const Job* job = need_job(state_, call);
  if (job == nullptr) return;
  const auto page = page_of(call.request);
  if (!page) return call.answer(page.error());
  Json list = Json::array();
  int64_t next = 0;
  for (auto it = job->checkpoints.upper_bound(page->after > 0 ? page->after : -1); it != job->checkpoints.end(); ++it) {
    if (static_cast<int64_t>(list.size()) == page->limit) {
      next = std::prev(it)->first;
      break;
    }
    list.push_back(show_checkpoint(*job, it->second));
  }
  call.answer(json_answer(200, {{"checkpoints", std::move(list)}, {"next_page_token", next_page_token(next)}}));
}

// `limit` counts steps here: a page has the rows that begin in them, and their digests.
void ListsApi::get_ledger(Call& call) {
  const Job* job = need_job(state_, call);
  if (job == nullptr) return;
  const auto page = page_of(call.request, kPageRowsMax);
  if (!page) return call.answer(page.error());
  JobStore& store = state_.journal().store();
  const StepRange all = store.records().ledger_range(job->id);
  const int64_t first = std::max(std::min(page->after, all.last) + 1, all.first);
  const StepRange range{first, std::min(first + page->limit - 1, all.last)};
  Json json = show_ledger(*job, store.records().ledger(job->id, range), store.records().digests(job->id, range));
  json["next_page_token"] = next_page_token(range.last < all.last ? range.last : 0);
  call.answer(json_answer(200, json));
}

}  // namespace holdfast::rendezvous

// Lists that grow: events, logs, metrics; read in pages, or followed (service_followers.cpp). And curves: a job's whole life in
// one answer.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "rendezvous/service_impl.h"
#include "rendezvous/views.h"

namespace holdfast::rendezvous {
namespace {

using Json = nlohmann::json;

constexpr const char* kListNames[] = {"events", "logs", "metrics"};
constexpr int64_t kCurvePointsMin = 2;

// From the least to the worst. What a worker's process wrote to stderr as it died is as bad as an error.
constexpr std::string_view kLogLevels[] = {"trace", "debug", "info", "warning", "error", "critical"};

// Those of a level and worse, as LogQuery has them.
Outcome<std::string> levels_from(std::string level) {
  if (level.empty()) return "";
  if (level == "warn") level = "warning";
  const auto found = std::ranges::find(kLogLevels, level);
  if (found == std::end(kLogLevels)) {
    return tl::unexpected(bad_field(
        "level", fmt::format("must be trace, debug, info, warning, error or critical, not \"{}\"", level.substr(0, 40))));
  }
  std::string levels = " ";
  for (auto each = found; each != std::end(kLogLevels); ++each) levels += std::string(*each) + " ";
  return levels + std::string(kLastWordsLevel) + " ";
}

}  // namespace

Service::Impl::FeedRows Service::Impl::read_feed(const FeedPlace& place, int64_t limit) {
  FeedRows found;
  found.read_to = place.after;
  JobStore& store = state_.store();
  if (place.feed == Feed::kLogs) {
    const LogPage page = store.logs({place.job, place.after, place.worker, place.levels}, limit);
    for (const LogRow& row : page.rows) found.rows.push_back({row.id, show_log(row)});
    found.read_to = page.read_to;
    found.more = page.more;
    found.looked_at = page.looked_at;
    return found;
  }
  if (place.feed == Feed::kEvents) {
    for (const EventRow& row : store.events(place.job, place.after, limit + 1)) found.rows.push_back({row.id, show_event(row)});
  } else {
    for (const StepRow& row : store.steps(place.job, place.after, limit + 1)) found.rows.push_back({row.id, show_step(row)});
  }
  found.more = static_cast<int64_t>(found.rows.size()) > limit;
  if (found.more) found.rows.pop_back();
  if (!found.rows.empty()) found.read_to = found.rows.back().id;
  found.looked_at = static_cast<int64_t>(found.rows.size());
  return found;
}

// Where the request asks to begin: after what it has seen, or with the newest lines.
Outcome<Service::Impl::FeedPlace> Service::Impl::place_of(const Call& call, Feed feed, int64_t after) {
  FeedPlace place{feed, call.arguments.empty() ? "" : call.arguments[0], after};
  if (feed != Feed::kLogs) {
    // An id beyond the newest is of a database that knew more: this one was restored from an older copy, and its next ids are
    // below what the reader has seen. The store does the same for logs.
    JobStore& store = state_.store();
    const bool events = feed == Feed::kEvents;
    if (after > 0) place.after = std::min(after, events ? store.newest_event_id(place.job) : store.newest_step_id(place.job));
    return place;
  }
  const auto levels = levels_from(text_query(call.request, "level"));
  if (!levels) return tl::unexpected(levels.error());
  place.levels = *levels;
  place.worker = text_query(call.request, "worker");
  const auto tail = integer_query(call.request, "tail", 1, kPageRowsMax, 0);
  if (!tail) return tl::unexpected(tail.error());
  if (*tail > 0 && after == 0)
    place.after = state_.store().before_newest_logs({place.job, 0, place.worker, place.levels}, *tail);
  return place;
}

void Service::Impl::list_or_follow(Call& call, Feed feed) {
  // Who asks for the newest N lines wants all of them.
  const auto page = page_of(call.request, call.request.query.contains("tail") ? kPageRowsMax : kPageRows);
  if (!page) return answer(call, page.error());
  int64_t after = page->after;
  const auto follows = flag_query(call.request, "follow");
  if (!follows) return answer(call, follows.error());
  if (const auto last = call.request.headers.find("last-event-id");
      *follows && last != call.request.headers.end() && !last->second.empty()) {
    const std::string& text = last->second;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), after);
    if (error != std::errc() || end != text.data() + text.size() || after < 0) {
      return answer(
          call, bad_field("Last-Event-ID", fmt::format("must be an id that this stream sent, not \"{}\"", text.substr(0, 40))));
    }
  }
  const auto place = place_of(call, feed, after);
  if (!place) return answer(call, place.error());
  if (*follows) return follow(call, *place);
  FeedRows found = read_feed(*place, page->limit);
  Json list = Json::array();
  for (FeedRow& row : found.rows) list.push_back(std::move(row.json));
  Json body = {{kListNames[static_cast<size_t>(feed)], std::move(list)},
               {"next_page_token", next_page_token(found.more ? found.read_to : 0)}};
  if (feed == Feed::kMetrics) {
    const int64_t folded = state_.store().folded_to(place->job);
    body["folded_before_step"] = folded > 0 ? Json(folded + 1) : Json(nullptr);
  }
  answer(call, json_answer(200, body));
}

void Service::Impl::show_curve(Call& call) {
  const auto points = integer_query(call.request, "points", kCurvePointsMin, kCurvePointsMax, kCurvePointsMin);
  if (!points) return answer(call, points.error());
  HttpResponse response;
  JobStore& store = state_.store();
  response.body = curve_text(store.curve(call.arguments[0], *points), store.newest_step_id(call.arguments[0]));
  answer(call, std::move(response));
}

void Service::Impl::get_events(Call& call) {
  if (need_job(call) != nullptr) list_or_follow(call, Feed::kEvents);
}
void Service::Impl::get_all_events(Call& call) {
  list_or_follow(call, Feed::kEvents);
}
void Service::Impl::get_logs(Call& call) {
  if (need_job(call) != nullptr) list_or_follow(call, Feed::kLogs);
}
void Service::Impl::get_metrics(Call& call) {
  if (need_job(call) == nullptr) return;
  call.request.query.contains("points") ? show_curve(call) : list_or_follow(call, Feed::kMetrics);
}

void Service::Impl::get_checkpoints(Call& call) {
  const Job* job = need_job(call);
  if (job == nullptr) return;
  const auto page = page_of(call.request);
  if (!page) return answer(call, page.error());
  Json list = Json::array();
  int64_t next = 0;
  for (auto it = job->checkpoints.upper_bound(page->after > 0 ? page->after : -1); it != job->checkpoints.end(); ++it) {
    if (static_cast<int64_t>(list.size()) == page->limit) {
      next = std::prev(it)->first;
      break;
    }
    list.push_back(show_checkpoint(*job, it->second));
  }
  answer(call, json_answer(200, {{"checkpoints", std::move(list)}, {"next_page_token", next_page_token(next)}}));
}

// A page is of so many steps: the rows that begin in them, and their digests.
void Service::Impl::get_ledger(Call& call) {
  const Job* job = need_job(call);
  if (job == nullptr) return;
  const auto page = page_of(call.request, kPageRowsMax);
  if (!page) return answer(call, page.error());
  JobStore& store = state_.store();
  const StepRange all = store.ledger_range(job->id);
  const int64_t first = std::max(std::min(page->after, all.last) + 1, all.first);
  const StepRange range{first, std::min(first + page->limit - 1, all.last)};
  Json json = show_ledger(*job, store.ledger(job->id, range), store.digests(job->id, range));
  json["next_page_token"] = next_page_token(range.last < all.last ? range.last : 0);
  answer(call, json_answer(200, json));
}

}  // namespace holdfast::rendezvous

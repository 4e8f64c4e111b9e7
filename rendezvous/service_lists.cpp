// Lists that grow: events, logs, metrics; read in pages, or followed as server-sent events.
//
// The store is the one source for both, so a follower that comes back with Last-Event-ID misses nothing and sees nothing
// twice. A stream ends when the job has ended and everything was sent; a reader that does not keep up is cut off.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "rendezvous/service_impl.h"
#include "rendezvous/views.h"

namespace holdfast::rendezvous {
namespace {

using Json = nlohmann::json;

// What a follower gets in one turn, so that none holds up the others, and so that one that reads is never cut off: several
// such chunks fit in a stream's buffer.
constexpr int64_t kRowsPerTurn = 500;
constexpr size_t kBytesPerTurn = 256 << 10;
constexpr Millis kKeepAliveMs = 15000;
constexpr Millis kLingerMs = 2000;  // after the job's end: last log lines may be on their way

struct FeedNames {
  const char *list, *event;
};
constexpr FeedNames kFeeds[] = {{"events", "event"}, {"logs", "log"}, {"metrics", "metric"}};

}  // namespace

std::vector<Service::Impl::FeedRow> Service::Impl::read_feed(Feed feed, const std::string& job, int64_t after, int64_t limit) {
  std::vector<FeedRow> rows;
  JobStore& store = state_.store();
  switch (feed) {
    case Feed::kEvents:
      for (const EventRow& row : store.events(job, after, limit)) rows.push_back({row.id, show_event(row)});
      break;
    case Feed::kLogs:
      for (const LogRow& row : store.logs(job, after, limit)) rows.push_back({row.id, show_log(row)});
      break;
    case Feed::kMetrics:
      for (const StepRow& row : store.steps(job, after, limit)) rows.push_back({row.id, show_step(row)});
      break;
  }
  return rows;
}

void Service::Impl::list_or_follow(Call& call, Feed feed) {
  auto page = page_of(call.request);
  if (!page) return answer(call, page.error());
  const std::string job = call.arguments.empty() ? "" : call.arguments[0];
  const auto follows = flag_query(call.request, "follow");
  if (!follows) return answer(call, follows.error());
  if (*follows) {
    if (const auto last = call.request.headers.find("last-event-id");
        last != call.request.headers.end() && !last->second.empty()) {
      const std::string& text = last->second;
      const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), page->after);
      if (error != std::errc() || end != text.data() + text.size()) {
        return answer(call, bad_field("Last-Event-ID",
                                      fmt::format("must be an id that this stream sent, not \"{}\"", text.substr(0, 40))));
      }
    }
    return follow(call, feed, page->after);
  }
  std::vector<FeedRow> rows = read_feed(feed, job, page->after, page->limit + 1);
  const bool more = static_cast<int64_t>(rows.size()) > page->limit;
  if (more) rows.pop_back();
  Json list = Json::array();
  const int64_t next = more ? rows.back().id : 0;
  for (FeedRow& row : rows) list.push_back(std::move(row.json));
  answer(call, json_answer(200, {{kFeeds[static_cast<size_t>(feed)].list, std::move(list)},
                                 {"next_page_token", next_page_token(next)}}));
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
  if (need_job(call) != nullptr) list_or_follow(call, Feed::kMetrics);
}

void Service::Impl::follow(const Call& call, Feed feed, int64_t after) {
  HttpResponse response;
  response.content_type = "text/event-stream";
  response.headers["Cache-Control"] = "no-store";
  const std::string job = call.arguments.empty() ? "" : call.arguments[0];
  const std::string token = call.who ? call.who->id : "";
  response.on_stream = [this, feed, job, after, token](std::shared_ptr<EventStream> stream) {
    const bool taken = enqueue([this, feed, job, after, token, stream] {
      followers_.push_back({stream, token, feed, job, after, clock_.steady_ms(), -1, true});
      follower_behind_ = true;
    });
    if (!taken) stream->close();
  };
  answer(call, std::move(response));
}

void Service::Impl::feed_followers() {
  const bool news = state_.writes() != fed_writes_;
  if (!news && !follower_behind_ && fed_ms_ >= 0 && clock_.steady_ms() < fed_ms_ + kTickMs) return;
  fed_writes_ = state_.writes();
  fed_ms_ = clock_.steady_ms();
  std::erase_if(followers_, [&](Follower& f) {
    std::string text;
    if (news || f.behind) {
      const std::vector<FeedRow> rows = read_feed(f.feed, f.job, f.after, kRowsPerTurn);
      for (const FeedRow& row : rows) {
        text += fmt::format("id: {}\nevent: {}\ndata: {}\n\n", row.id, kFeeds[static_cast<size_t>(f.feed)].event,
                            row.json.dump(-1, ' ', false, Json::error_handler_t::replace));
        f.after = row.id;
        if (text.size() >= kBytesPerTurn) break;
      }
      f.behind = static_cast<int64_t>(rows.size()) == kRowsPerTurn || (!rows.empty() && f.after < rows.back().id);
    }
    const Millis now = clock_.steady_ms();
    if (text.empty() && now >= f.written_ms + kKeepAliveMs) text = ": keep-alive\n\n";
    if (!text.empty()) {
      f.written_ms = now;
      if (!f.stream->write(text)) return true;
    }
    const Job* job = state_.find_job(f.job);
    const bool ended = job != nullptr && is_ended(job->membership.state);
    if (!ended || f.behind)
      f.ended_ms = -1;
    else if (f.ended_ms < 0)
      f.ended_ms = now;
    if (f.ended_ms < 0 || now < f.ended_ms + kLingerMs) return false;
    f.stream->close();
    return true;
  });
  follower_behind_ = std::ranges::any_of(followers_, &Follower::behind);
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

// Lists that grow, followed as server-sent events.
//
// The store is the one source, so a follower that comes back with Last-Event-ID misses nothing and sees nothing twice. Those at
// the same place of the same list share what is read for them. A stream ends when the job has ended and everything was sent. A
// slow reader is sent no more until it has read what it was sent: it loses nothing, and costs nobody else anything. One that
// stops reading altogether is cut off by the connection, and reads on where it was when it comes back.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "rendezvous/service_impl.h"

namespace holdfast::rendezvous {
namespace {

using Json = nlohmann::json;

// What a follower gets in one turn. Two such chunks fit in a stream's buffer, so that nobody is cut off by being sent one.
constexpr int64_t kRowsPerChunk = 500;
constexpr size_t kBytesPerChunk = 256 << 10;
constexpr size_t kUnreadMax = 256 << 10;
// Rows that are looked at for all in one turn, so that requests do not wait; who is behind then has its turn in the next one.
constexpr int64_t kRowsPerTurn = 4 * kRowsPerChunk;
constexpr Millis kKeepAliveMs = 15000;
constexpr Millis kLingerMs = 2000;  // after the job's end: last log lines may be on their way

constexpr const char* kEventNames[] = {"event", "log", "metric"};

}  // namespace

void Service::Impl::follow(const Call& call, FeedPlace place) {
  HttpResponse response;
  response.content_type = "text/event-stream";
  response.headers["Cache-Control"] = "no-store";
  const std::string token = call.who ? call.who->id : "";
  response.on_stream = [this, entrance = entrance_, token,
                        place = std::move(place)](const std::shared_ptr<EventStream>& stream) {
    const bool taken = entrance->enqueue([this, token, place, stream] {  // it is there where this is called
      followers_.push_back({stream, token, place, clock_.steady_ms()});
      follower_behind_ = true;
    });
    if (!taken) stream->close();
  };
  answer(call, std::move(response));
}

Service::Impl::FeedChunk Service::Impl::make_chunk(const FeedPlace& place, int64_t& rows_left) {
  const FeedRows found = read_feed(place, kRowsPerChunk);
  rows_left -= found.looked_at + 1;
  FeedChunk chunk{"", found.read_to, found.more};
  for (const FeedRow& row : found.rows) {
    chunk.text += fmt::format("id: {}\nevent: {}\ndata: {}\n\n", row.id, kEventNames[static_cast<size_t>(place.feed)],
                              row.json.dump(-1, ' ', false, Json::error_handler_t::replace));
    if (chunk.text.size() < kBytesPerChunk || &row == &found.rows.back()) continue;
    chunk.read_to = row.id;
    chunk.more = true;
    break;
  }
  return chunk;
}

// False when its stream is over: it was told everything.
bool Service::Impl::go_on(Follower& f) {
  const Millis now = clock_.steady_ms();
  const Job* job = state_.find_job(f.place.job);
  const bool ended = job != nullptr && is_ended(job->membership.state);
  if (!ended || f.behind)
    f.ended_ms = -1;
  else if (f.ended_ms < 0)
    f.ended_ms = now;
  if (f.ended_ms < 0 || now < f.ended_ms + kLingerMs) return true;
  f.stream->close();
  return false;
}

void Service::Impl::feed_followers() {
  const bool news = state_.writes() != fed_writes_;
  const Millis now = clock_.steady_ms();
  if (!news && !follower_behind_ && fed_ms_ >= 0 && now < fed_ms_ + kTickMs) return;
  fed_writes_ = state_.writes();
  fed_ms_ = now;
  std::map<FeedPlace, FeedChunk> chunks;
  int64_t rows_left = kRowsPerTurn;
  size_t first_unfed = followers_.size();
  for (size_t i = 0; i < followers_.size(); ++i) {
    Follower& f = followers_[i];
    const FeedChunk* chunk = nullptr;
    f.full = f.stream->unread() > kUnreadMax;
    if (f.full) {
      f.behind = true;
      continue;
    }
    if (news || f.behind) {
      auto found = chunks.find(f.place);
      if (found == chunks.end() && rows_left > 0) found = chunks.emplace(f.place, make_chunk(f.place, rows_left)).first;
      if (found == chunks.end()) {
        f.behind = true;
        first_unfed = std::min(first_unfed, i);
        continue;
      }
      chunk = &found->second;
      f.place.after = chunk->read_to;
      f.behind = chunk->more;
    }
    const bool silent = chunk == nullptr || chunk->text.empty();
    bool there = true;
    if (!silent || now >= f.written_ms + kKeepAliveMs) {
      f.written_ms = now;
      there = f.stream->write(silent ? ": keep-alive\n\n" : chunk->text);
    }
    if (!there || !go_on(f)) f.stream = nullptr;
  }
  std::ranges::rotate(followers_, followers_.begin() + static_cast<std::ptrdiff_t>(first_unfed));  // these come first now
  std::erase_if(followers_, [](const Follower& f) { return f.stream == nullptr; });
  follower_behind_ = std::ranges::any_of(followers_, [](const Follower& f) { return f.behind && !f.full; });
}

}  // namespace holdfast::rendezvous

#include "rendezvous/api/feeds/followers.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

namespace holdfast::rendezvous {
namespace {

using Json = nlohmann::json;

// The most that a follower gets in one turn. Two such chunks fit in a stream's buffer, so that sending one cuts nobody off.
constexpr int64_t kRowsPerChunk = 500;
constexpr size_t kBytesPerChunk = 256 << 10;
constexpr size_t kUnreadMax = 256 << 10;
// The most rows that are read for all followers in one turn, so that requests do not wait. Followers that were left out come
// first in the next turn.
constexpr int64_t kRowsPerTurn = 4 * kRowsPerChunk;
constexpr Millis kKeepAliveMs = 15000;
constexpr Millis kLingerMs = 2000;  // after the job's end: its last log lines may still be on their way

constexpr const char* kEventNames[] = {"event", "log", "metric"};

}  // namespace

void Followers::follow(const Call& call, FeedPlace place) {
  HttpResponse response;
  response.content_type = "text/event-stream";
  response.headers["Cache-Control"] = "no-store";
  const std::string token = call.who ? call.who->id : "";
  // The stream begins when its answer was sent: the service may be gone by then, and its queue closed.
  response.on_stream = [this, commands = turn_.commands, token,
                        place = std::move(place)](const std::shared_ptr<EventStream>& stream) {
    const bool taken = commands->add([this, token, place, stream] {
      followers_.push_back({stream, token, place, turn_.clock.steady_ms()});
      behind_ = true;
    });
    if (!taken) stream->close();
  };
  call.answer(std::move(response));
}

Followers::Chunk Followers::make_chunk(const FeedPlace& place, int64_t& rows_left) {
  const FeedRows found = read_feed(turn_.state.journal().store(), place, kRowsPerChunk);
  rows_left -= found.looked_at + 1;
  Chunk chunk{"", found.read_to, found.more};
  for (const FeedRow& row : found.rows) {
    chunk.text += fmt::format("id: {}\nevent: {}\ndata: {}\n\n", row.id, kEventNames[static_cast<size_t>(place.feed)],
                              json_text(row.json));
    if (chunk.text.size() < kBytesPerChunk || &row == &found.rows.back()) continue;
    chunk.read_to = row.id;
    chunk.more = true;
    break;
  }
  return chunk;
}

// False: its stream is over, for it was sent everything.
bool Followers::go_on(Follower& f) {
  const Millis now = turn_.clock.steady_ms();
  const Job* job = turn_.state.find_job(f.place.job);
  const bool ended = job != nullptr && is_ended(job->membership->state);
  if (!ended || f.behind)
    f.ended_ms = -1;
  else if (f.ended_ms < 0)
    f.ended_ms = now;
  if (f.ended_ms < 0 || now < f.ended_ms + kLingerMs) return true;
  f.stream->close();
  return false;
}

void Followers::feed() {
  const bool news = turn_.state.journal().transactions() != fed_writes_;
  const Millis now = turn_.clock.steady_ms();
  if (!news && !behind_ && fed_ms_ >= 0 && now < fed_ms_ + kTickMs) return;
  fed_writes_ = turn_.state.journal().transactions();
  fed_ms_ = now;
  std::map<FeedPlace, Chunk> chunks;
  int64_t rows_left = kRowsPerTurn;
  size_t first_unfed = followers_.size();
  for (size_t i = 0; i < followers_.size(); ++i) {
    Follower& f = followers_[i];
    const Chunk* chunk = nullptr;
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
  behind_ = std::ranges::any_of(followers_, [](const Follower& f) { return f.behind && !f.full; });
}

void Followers::end_all_but(const std::set<std::string>& valid_tokens) {
  std::erase_if(followers_, [&](const Follower& follower) {
    if (valid_tokens.contains(follower.token)) return false;
    follower.stream->close();
    return true;
  });
}

void Followers::close() {
  for (Follower& follower : followers_) follower.stream->close();
  followers_.clear();
}

}  // namespace holdfast::rendezvous

#include "worker/profile/recorder.h"

#include <algorithm>
#include <array>
#include <memory>
#include <mutex>
#include <utility>

#include "worker/profile/ranges.h"

namespace holdfast::worker {

namespace detail {
std::atomic<uint64_t> wanted{0};
}

namespace {

constexpr uint64_t kRangesBit = 1;

int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

struct Track {
  const char* role = "thread";
  bool taken = false;  // by a thread that lives; with Recorder::mutex

  std::mutex mutex;  // of what follows
  uint64_t of = 0;   // the recording whose spans these are
  std::vector<RecordedSpan> spans;
};

struct Recorder {
  std::mutex mutex;  // of the tracks as a list, and of starting and stopping
  std::vector<std::unique_ptr<Track>> tracks;
  uint64_t recordings = 0;
  std::atomic<int64_t> began_ns{0};
  std::atomic<int64_t> room{0}, outline_room{0}, dropped{0};

  Track* take_track(const char* role) {
    const std::lock_guard lock(mutex);
    for (const auto& track : tracks) {
      if (track->taken || track->role != std::string_view(role)) continue;
      track->taken = true;
      return track.get();
    }
    if (tracks.size() >= kTracksMax) return nullptr;
    Track& fresh = *tracks.emplace_back(std::make_unique<Track>());
    fresh.role = role;
    fresh.taken = true;
    return &fresh;
  }
  void leave_track(Track* track) {
    const std::lock_guard lock(mutex);
    track->taken = false;
  }
};

// Never destroyed: threads may end after the statics of main's file.
Recorder& recorder() {
  static auto* const all = new Recorder;
  return *all;
}

// The calling thread's place.
struct Place {
  const char* role = "thread";
  Track* track = nullptr;
  ~Place() { leave(); }
  void take() {
    if (track == nullptr) track = recorder().take_track(role);
  }
  void leave() {
    if (track != nullptr) recorder().leave_track(std::exchange(track, nullptr));
  }
};
thread_local Place place;
thread_local std::vector<std::weak_ptr<LaterSpans>> later;

void keep(uint64_t recording, const RecordedSpan& span, Place& on = place) {
  Recorder& all = recorder();
  const bool outline = span.kind == SpanKind::kStep || span.kind == SpanKind::kPhase;
  std::atomic<int64_t>& room = outline ? all.outline_room : all.room;
  on.take();
  if (on.track == nullptr || room.fetch_sub(1, std::memory_order_relaxed) <= 0) {
    all.dropped.fetch_add(1, std::memory_order_relaxed);
    return;
  }
  const std::lock_guard lock(on.track->mutex);
  if (on.track->of != recording) {
    on.track->spans.clear();
    on.track->of = recording;
  }
  on.track->spans.push_back(span);
}

// With the recorder's mutex held.
void set_recording(uint64_t recording) {
  const uint64_t ranges = detail::wanted.load() & kRangesBit;
  detail::wanted.store(2 * recording | ranges);
}

}  // namespace

void Span::begin() {
  push_range(name_);
  if (wanted_ / 2 != 0) place.take();  // before it begins: the thread that had the track has ended then
  begin_ns_ = now_ns();
}

void Span::end() {
  const int64_t end_ns = now_ns();
  pop_range();
  const uint64_t recording = wanted_ / 2;
  if (recording == 0 || detail::wanted.load(std::memory_order_relaxed) / 2 != recording) return;
  keep(recording, {name_, kind_, begin_ns_, end_ns - begin_ns_, number_});
}

void start_recording(int64_t spans_max, int64_t outline_max) {
  Recorder& all = recorder();
  const std::lock_guard lock(all.mutex);
  all.room = spans_max;
  all.outline_room = outline_max;
  all.dropped = 0;
  all.began_ns = now_ns();
  set_recording(++all.recordings);
}

void bring_later(const std::shared_ptr<LaterSpans>& spans) {
  std::erase_if(later, [](const auto& each) { return each.expired(); });
  later.push_back(spans);
}

void bring_later_spans() {
  for (const auto& each : later) {
    if (const auto spans = each.lock()) spans->bring();
  }
}

Recording stop_recording() {
  bring_later_spans();
  Recorder& all = recorder();
  const std::lock_guard lock(all.mutex);
  const uint64_t recording = detail::wanted.load() / 2;
  set_recording(0);
  Recording recorded;
  if (recording == 0) return recorded;
  std::vector<std::pair<const char*, int>> of_role;
  for (const auto& track : all.tracks) {
    const std::lock_guard track_lock(track->mutex);
    if (track->of != recording || track->spans.empty()) continue;
    const auto same = [&](const auto& role) { return role.first == std::string_view(track->role); };
    auto found = std::ranges::find_if(of_role, same);
    if (found == of_role.end()) found = of_role.insert(of_role.end(), {track->role, 0});
    std::string thread = track->role;
    if (++found->second > 1) thread.append(1, ' ').append(std::to_string(found->second));
    recorded.tracks.push_back({std::move(thread), std::exchange(track->spans, {})});
  }
  recorded.dropped = all.dropped;
  return recorded;
}

bool keeps_spans() {
  return recorder().room.load(std::memory_order_relaxed) > 0;
}

void record_spans(const char* role, std::span<const RecordedSpan> spans) {
  const uint64_t recording = detail::wanted.load(std::memory_order_relaxed) / 2;
  if (recording == 0) return;
  Place other{role};
  for (const RecordedSpan& span : spans) keep(recording, span, other);
}

void name_thread(const char* role) {
  if (place.role == std::string_view(role)) return;
  place.leave();
  place.role = role;
}

void record_span(SpanKind kind, const char* name, std::chrono::duration<double> duration) {
  const uint64_t recording = detail::wanted.load(std::memory_order_relaxed) / 2;
  if (recording == 0) return;
  const int64_t end_ns = now_ns();
  const int64_t begin_ns = std::max(end_ns - static_cast<int64_t>(duration.count() * 1e9), recorder().began_ns.load());
  keep(recording, {name, kind, begin_ns, std::max<int64_t>(0, end_ns - begin_ns), -1});
}

}  // namespace holdfast::worker

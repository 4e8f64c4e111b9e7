// The recording of this process: the spans of all its threads between start_recording() and stop_recording().
//
// Each thread keeps its spans in a track of its own. A thread that ends leaves its track to the next one of its role, so that
// threads that live for a step share one. Bounds: kTracksMax tracks, and as many spans as start_recording() says; what is
// beyond them is counted and dropped. Promises: a span that began before the recording or ends after it is not in it. Thread:
// any; start and stop come from one at a time.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "worker/profile/span.h"

namespace holdfast::worker {

struct RecordedSpan {
  const char* name = nullptr;
  SpanKind kind = SpanKind::kOther;
  int64_t begin_ns = 0, duration_ns = 0;  // of std::chrono::steady_clock
  int64_t number = -1;
};
struct RecordedTrack {
  std::string thread;  // its role; the second thread of a role has a 2 behind it
  std::vector<RecordedSpan> spans;
};
struct Recording {
  std::vector<RecordedTrack> tracks;
  int64_t dropped = 0;
};

inline constexpr size_t kTracksMax = 32;

// Drops an earlier recording that was not stopped. Steps and phases have a bound of their own, `outline_max`, so that they are
// all there when other spans were dropped.
void start_recording(int64_t spans_max, int64_t outline_max);
Recording stop_recording();

// Spans whose times are known only later: those of a device that works through a queue.
class LaterSpans {
 public:
  virtual ~LaterSpans() = default;
  // Hands over with record_spans what there is, and waits for it. Throws nothing.
  virtual void bring() noexcept = 0;
};
// The calling thread is one whose bring_later_spans() brings these, too, for as long as they live.
void bring_later(const std::shared_ptr<LaterSpans>& spans);
// By the end of a step, so that its spans lie within it. stop_recording() does it once more, so it comes from the same thread.
// Waits for nothing where nothing was recorded that has its times later.
void bring_later_spans();
// Whether the recording under way still keeps spans: those that come later need not be prepared otherwise.
bool keeps_spans();
// Keeps spans on a track of this role, if a recording is under way.
void record_spans(const char* role, std::span<const RecordedSpan> spans);

// Says what the calling thread is for; "thread" without it.
void name_thread(const char* role);
// Keeps a span of the calling thread that ends now, if a recording is under way; the part before the recording is cut off.
void record_span(SpanKind kind, const char* name, std::chrono::duration<double> duration);

}  // namespace holdfast::worker

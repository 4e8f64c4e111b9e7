// One worker's part of a profile: from the service's order to spans that are ready to be sent.
//
// Promises: recording begins and ends between two steps; each order is answered by one part, also where the run ended in the
// middle (`ended` says why) or the order came when its steps were over. An order that the service takes back, or another one in
// its place, drops what was recorded. While there is no order a step costs one relaxed load.
// Thread: want() from any; the rest from the train thread. `on_recorded` is called on the train thread and does not block.
#pragma once

#include <atomic>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "rendezvous/protocol/profile.h"
#include "worker/profile/recorder.h"

namespace holdfast::worker {

struct RecordedProfile {
  std::string id;  // ProfileOrder::id
  Recording recording;
  std::string ended;  // why before its last step; "": it did not
};

class Profiler {
 public:
  using OnRecorded = std::function<void(RecordedProfile)>;
  explicit Profiler(OnRecorded on_recorded) : on_recorded_(std::move(on_recorded)) {}

  void want(const std::optional<rendezvous::ProfileOrder>& order);

  // `step` by its number after it.
  void begin_step(int64_t step) {
    if (changed_.load(std::memory_order_relaxed) || order_) [[unlikely]]
      look(step);
  }
  void end_step(int64_t step) {
    if (recording_ && step + 1 >= order_->from_step + order_->steps) [[unlikely]]
      hand_over("");
  }
  // The run ends.
  void end(const std::string& why);

 private:
  void look(int64_t step);
  void take_news();
  void hand_over(std::string ended);

  OnRecorded on_recorded_;
  std::atomic<bool> changed_{false};
  std::mutex mutex_;
  std::optional<rendezvous::ProfileOrder> wanted_;  // the newest

  // The train thread's.
  std::optional<rendezvous::ProfileOrder> order_;
  bool recording_ = false;
};

// A step of the train thread, which the profiler sees from its beginning to its end. A step that is not completed() is shown
// as broken off. completed() waits for a device whose queue has ops of the profile.
class ProfiledStep {
 public:
  ProfiledStep(Profiler& profiler, int64_t step)
      : recording_(profiler, step), span_(SpanKind::kOther, "a step that was broken off", step) {}
  void completed() {
    bring_later_spans();
    span_.becomes(SpanKind::kStep, "step");
    recording_.completed = true;
  }

 private:
  // Begins before the span, and ends after it.
  struct Boundaries {
    Boundaries(Profiler& its, int64_t number) : profiler(its), step(number) { profiler.begin_step(step); }
    ~Boundaries() {
      if (completed) profiler.end_step(step);
    }
    Boundaries(const Boundaries&) = delete;
    Profiler& profiler;
    int64_t step;
    bool completed = false;
  };
  Boundaries recording_;
  Span span_;
};

// The pieces of a part, ready to be sent; at least one.
std::vector<rendezvous::ProfilePart> pieces_of(const RecordedProfile& recorded, const std::string& worker,
                                               const std::string& incarnation);

}  // namespace holdfast::worker

#include "worker/profile/profiler.h"

#include <algorithm>
#include <map>
#include <span>
#include <string_view>
#include <utility>

namespace holdfast::worker {

using rendezvous::ProfileOrder;
using rendezvous::ProfilePart;

void Profiler::want(const std::optional<ProfileOrder>& order) {
  const std::lock_guard lock(mutex_);
  wanted_ = order;
  changed_ = true;
}

void Profiler::take_news() {
  std::optional<ProfileOrder> wanted;
  {
    const std::lock_guard lock(mutex_);
    if (!changed_.exchange(false)) return;
    wanted = wanted_;
  }
  if (wanted == order_) return;
  if (std::exchange(recording_, false)) stop_recording();
  order_ = std::move(wanted);
}

void Profiler::look(int64_t step) {
  take_news();
  if (!order_ || recording_ || step < order_->from_step) return;
  if (step >= order_->from_step + order_->steps) return hand_over("the order came when its steps were done");
  recording_ = true;
  start_recording(order_->spans_max, order_->steps * rendezvous::kSpansOfStepMax);
}

void Profiler::hand_over(std::string ended) {
  RecordedProfile recorded{order_->id, {}, std::move(ended)};
  if (std::exchange(recording_, false)) recorded.recording = stop_recording();
  order_.reset();
  on_recorded_(std::move(recorded));
}

void Profiler::end(const std::string& why) {
  take_news();
  if (order_) hand_over(why.empty() ? "the run ended" : why);
  order_.reset();
}

namespace {

// The piece that is being filled.
struct Filling {
  ProfilePart part;
  std::map<std::string_view, int32_t> names;
  size_t spans = 0;

  int32_t place_of(const char* name) {
    const auto [found, fresh] = names.emplace(name, static_cast<int32_t>(part.names.size()));
    if (fresh) part.names.emplace_back(name);
    return found->second;
  }
};

}  // namespace

std::vector<ProfilePart> pieces_of(const RecordedProfile& recorded, const std::string& worker, const std::string& incarnation) {
  ProfilePart blank;
  blank.worker = worker;
  blank.incarnation = incarnation;
  blank.profile = recorded.id;
  blank.dropped = recorded.recording.dropped;
  blank.ended = recorded.ended;
  std::vector<Filling> pieces{{blank, {}, 0}};
  for (const RecordedTrack& track : recorded.recording.tracks) {
    for (size_t at = 0; at < track.spans.size();) {
      if (pieces.back().spans == rendezvous::kSpansOfPieceMax) pieces.push_back({blank, {}, 0});
      Filling& piece = pieces.back();
      const size_t count = std::min(track.spans.size() - at, rendezvous::kSpansOfPieceMax - piece.spans);
      rendezvous::ProfileTrack& to = piece.part.tracks.emplace_back();
      to.thread = track.thread;
      for (const RecordedSpan& span : std::span(track.spans).subspan(at, count)) {
        to.spans.push_back({piece.place_of(span.name), span.kind, span.begin_ns, span.duration_ns, span.number});
      }
      piece.spans += count;
      at += count;
    }
  }
  std::vector<ProfilePart> parts;
  for (Filling& piece : pieces) {
    piece.part.piece = static_cast<int64_t>(parts.size());
    piece.part.pieces = static_cast<int64_t>(pieces.size());
    parts.push_back(std::move(piece.part));
  }
  return parts;
}

}  // namespace holdfast::worker

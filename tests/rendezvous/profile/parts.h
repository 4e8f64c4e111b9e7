// A rank's part of a profile, made span by span.
#pragma once

#include <algorithm>
#include <string>

#include "rendezvous/protocol/profile.h"

namespace holdfast::rendezvous {

class PartMaker {
 public:
  explicit PartMaker(const std::string& worker) {
    part.worker = worker;
    part.incarnation = worker + "-1";
    part.profile = "p";
  }
  // Times in microseconds.
  PartMaker& span(const std::string& thread, SpanKind kind, const std::string& name, int64_t begin_us, int64_t end_us,
                  int64_t number = -1) {
    auto track = std::ranges::find(part.tracks, thread, &ProfileTrack::thread);
    if (track == part.tracks.end()) track = part.tracks.insert(track, {thread, {}});
    auto place = std::ranges::find(part.names, name);
    if (place == part.names.end()) place = part.names.insert(place, name);
    track->spans.push_back(
        {static_cast<int32_t>(place - part.names.begin()), kind, begin_us * 1000, (end_us - begin_us) * 1000, number});
    return *this;
  }
  // A step of 100 us that begins at `at`: 80 of accumulating with 60 of an op in it, 20 of exchanging.
  PartMaker& step(int64_t number, int64_t at) {
    return span("train", SpanKind::kOp, "matmul", at + 10, at + 70)
        .span("train", SpanKind::kPhase, "accumulate", at, at + 80)
        .span("train", SpanKind::kGather, "all-gather", at + 82, at + 98, number)
        .span("train", SpanKind::kPhase, "exchange", at + 80, at + 100)
        .span("train", SpanKind::kStep, "step", at, at + 100, number);
  }

  ProfilePart part;
};

}  // namespace holdfast::rendezvous

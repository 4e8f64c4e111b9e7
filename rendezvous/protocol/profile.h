// A profile of a job: the order that the service gives to the workers of a generation, and the parts that they bring.
//
// A worker records spans of time, each on a thread, by its own steady clock; rendezvous/profile/ makes one trace of all parts.
// A part goes in pieces, because a body has a bound. A worker of an older release does not know the order and brings nothing.
//   POST /v1/jobs/{id}/profile/parts      ProfilePart      -> 204
// Thread: any; everything here is a value or a pure function.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace holdfast::rendezvous {

// The kind of work that a span shows. Spans of one thread lie within each other or side by side.
enum class SpanKind : uint8_t {
  kStep,        // a whole step of the train thread, from the end of the step before; `number` is the step
  kPhase,       // a part of a step: the phases of a step follow each other without a gap
  kOp,          // an operation of the device
  kBucket,      // the reduction of one bucket of gradients; `number` is the bucket
  kGather,      // an all-gather of the ring, which every rank begins before any ends; `number` counts them in a generation
  kRing,        // another operation of the ring
  kWait,        // waiting for another thread
  kCopy,        // a copy between the device and the host
  kCheckpoint,  // work on a checkpoint
  kOther,
};
inline constexpr size_t kSpanKinds = 10;
const char* span_kind_name(SpanKind kind);

inline constexpr int64_t kProfileStepsMax = 200;
inline constexpr int64_t kSpansOfStepMax = 16;      // steps and phases of one step, which are kept beyond spans_max
inline constexpr size_t kSpansOfPieceMax = 16'000;  // as JSON at most 60 bytes each, where a body may have 1 MiB
inline constexpr int64_t kPiecesMax = 64;           // of a part
inline constexpr size_t kSpanNamesMax = 200, kSpanTracksMax = 40, kSpanNameBytesMax = 64;  // of a piece

struct ProfileOrder {
  std::string id;
  int64_t from_step = 0, steps = 0;  // the first step to record, by its number after it, and how many
  int64_t spans_max = 0;             // that one rank keeps, beside steps and phases
  bool operator==(const ProfileOrder&) const = default;
};

struct ProfileSpan {
  int32_t name = 0;  // its place in ProfilePart::names
  SpanKind kind = SpanKind::kOther;
  int64_t begin_ns = 0, duration_ns = 0;  // by the worker's steady clock
  int64_t number = -1;
  bool operator==(const ProfileSpan&) const = default;
};
struct ProfileTrack {
  std::string thread;  // "train", "checkpoint writer 2"
  std::vector<ProfileSpan> spans;
  bool operator==(const ProfileTrack&) const = default;
};
struct ProfilePart {
  std::string worker, incarnation;
  std::string profile;  // ProfileOrder::id
  int64_t piece = 0, pieces = 1;
  std::vector<std::string> names;
  std::vector<ProfileTrack> tracks;
  int64_t dropped = 0;  // spans beyond spans_max
  std::string ended;    // why the recording ended before its last step; "": it did not
};

// from_json throws std::invalid_argument that names the field. The spans of a track are one list of numbers, five a span: name,
// kind, begin (after the begin of the span before), duration, number.
void to_json(nlohmann::json& json, const ProfilePart& part);
void from_json(const nlohmann::json& json, ProfilePart& part);

}  // namespace holdfast::rendezvous

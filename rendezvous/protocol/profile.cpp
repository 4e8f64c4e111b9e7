#include "rendezvous/protocol/profile.h"

#include <fmt/format.h>

#include <array>
#include <stdexcept>

#include "rendezvous/protocol/json_values.h"

namespace holdfast::rendezvous {
namespace {

using Json = nlohmann::json;

constexpr std::array<const char*, kSpanKinds> kKinds{"step", "phase", "op",   "bucket",     "all-gather",
                                                     "ring", "wait",  "copy", "checkpoint", "other"};
constexpr size_t kNumbersOfSpan = 5;
constexpr int64_t kTimeMax = int64_t{1} << 61;

template <typename T>
void read_field(const Json& json, const char* name, T& out) {
  if (!json.is_object()) refuse("part", "an object", json);
  const auto found = json.find(name);
  if (found == json.end()) throw std::invalid_argument(fmt::format("{}: is missing", name));
  read(name, *found, out);
}

const Json& list_at(const Json& json, const std::string& field, const char* name, size_t most) {
  const auto found = json.find(name);
  if (found == json.end() || !found->is_array()) refuse(field, "an array", found == json.end() ? Json() : *found);
  if (found->size() > most)
    throw std::invalid_argument(fmt::format("{}: has {} entries, at most {} are taken", field, found->size(), most));
  return *found;
}

std::string name_from(const std::string& field, const Json& json) {
  std::string name;
  read(field, json, name);
  if (name.empty() || name.size() > kSpanNameBytesMax)
    throw std::invalid_argument(fmt::format("{}: has {} bytes, expected 1 to {}", field, name.size(), kSpanNameBytesMax));
  return name;
}

int64_t number_from(const std::string& field, const Json& json, int64_t least, int64_t most) {
  int64_t value = 0;
  read(field, json, value);
  if (value < least || value > most)
    throw std::invalid_argument(fmt::format("{}: is {}, expected {} to {}", field, value, least, most));
  return value;
}

std::vector<ProfileSpan> spans_from(const std::string& field, const Json& numbers, size_t names) {
  if (numbers.size() % kNumbersOfSpan != 0) {
    throw std::invalid_argument(fmt::format("{}: has {} numbers, expected {} a span", field, numbers.size(), kNumbersOfSpan));
  }
  std::vector<ProfileSpan> spans(numbers.size() / kNumbersOfSpan);
  int64_t begin = 0;
  for (size_t i = 0; i < spans.size(); ++i) {
    const auto at = [&](size_t k) -> const Json& { return numbers[i * kNumbersOfSpan + k]; };
    ProfileSpan& span = spans[i];
    span.name = static_cast<int32_t>(number_from(field, at(0), 0, static_cast<int64_t>(names) - 1));
    span.kind = static_cast<SpanKind>(number_from(field, at(1), 0, kSpanKinds - 1));
    begin += number_from(field, at(2), -kTimeMax - begin, kTimeMax - begin);
    span.begin_ns = begin;
    span.duration_ns = number_from(field, at(3), 0, kTimeMax);
    span.number = number_from(field, at(4), -1, kTimeMax);
  }
  return spans;
}

Json numbers_of(const std::vector<ProfileSpan>& spans) {
  Json numbers = Json::array();
  int64_t begin = 0;
  for (const ProfileSpan& span : spans) {
    for (const int64_t number :
         {int64_t{span.name}, static_cast<int64_t>(span.kind), span.begin_ns - begin, span.duration_ns, span.number})
      numbers.push_back(number);
    begin = span.begin_ns;
  }
  return numbers;
}

}  // namespace

const char* span_kind_name(SpanKind kind) {
  return kKinds[static_cast<size_t>(kind)];
}

void to_json(Json& json, const ProfilePart& part) {
  Json tracks = Json::array();
  for (const ProfileTrack& track : part.tracks)
    tracks.push_back({{"thread", track.thread}, {"spans", numbers_of(track.spans)}});
  json = {{"worker", part.worker},       {"incarnation", part.incarnation}, {"profile", part.profile},
          {"piece", part.piece},         {"pieces", part.pieces},           {"names", part.names},
          {"tracks", std::move(tracks)}, {"dropped", part.dropped},         {"ended", part.ended}};
}

void from_json(const Json& json, ProfilePart& part) {
  read_field(json, "worker", part.worker);
  read_field(json, "incarnation", part.incarnation);
  read_field(json, "profile", part.profile);
  read_field(json, "dropped", part.dropped);
  read_field(json, "ended", part.ended);
  read_field(json, "pieces", part.pieces);
  number_from("pieces", json["pieces"], 1, kPiecesMax);
  read_field(json, "piece", part.piece);
  number_from("piece", json["piece"], 0, part.pieces - 1);
  part.names.clear();
  for (const Json& name : list_at(json, "names", "names", kSpanNamesMax)) part.names.push_back(name_from("names", name));
  part.tracks.clear();
  size_t room = kSpansOfPieceMax;
  for (const Json& track : list_at(json, "tracks", "tracks", kSpanTracksMax)) {
    const std::string field = fmt::format("tracks[{}]", part.tracks.size());
    if (!track.is_object() || !track.contains("thread")) refuse(field, "an object with thread and spans", track);
    ProfileTrack& read_track = part.tracks.emplace_back();
    read_track.thread = name_from(field + ".thread", track["thread"]);
    read_track.spans =
        spans_from(field + ".spans", list_at(track, field + ".spans", "spans", room * kNumbersOfSpan), part.names.size());
    room -= read_track.spans.size();
  }
}

}  // namespace holdfast::rendezvous

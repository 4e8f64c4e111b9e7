#include "rendezvous/profile/trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <limits>
#include <nlohmann/json.hpp>
#include <string_view>

#include "rendezvous/protocol/messages.h"

namespace holdfast::rendezvous {
namespace {

using Json = nlohmann::json;

constexpr double kMicrosecond = 1e-3;  // of nanoseconds

// The thing that a span's number counts.
const char* number_word(SpanKind kind) {
  switch (kind) {
    case SpanKind::kBucket:
      return "bucket";
    case SpanKind::kGather:
      return "number";
    default:
      return "step";
  }
}

Json metadata_of(const MergedProfile& merged, const std::string& title) {
  Json ranks = Json::array();
  for (const ProfiledRank& rank : merged.ranks) {
    Json shown = {{"rank", rank.rank}, {"worker", rank.worker}, {"dropped_spans", rank.dropped}};
    if (rank.aligned) {
      shown["clock_offset_us"] = static_cast<double>(rank.clock.offset_ns) * kMicrosecond;
      shown["clock_error_us"] = static_cast<double>(rank.clock.error_ns) * kMicrosecond;
    }
    if (!rank.missing.empty()) shown["missing"] = rank.missing;
    if (!rank.ended.empty()) shown["ended"] = rank.ended;
    ranks.push_back(std::move(shown));
  }
  return {{"title", title},
          {"first_step", merged.first_step},
          {"last_step", merged.last_step},
          {"steps", merged.steps},
          {"clock", "the first rank's; a time of another rank is off by clock_error_us at most"},
          {"ranks", std::move(ranks)}};
}

int64_t first_begin(const MergedProfile& merged) {
  int64_t first = std::numeric_limits<int64_t>::max();
  for (const ProfiledRank& rank : merged.ranks) {
    for (const ProfileTrack& track : rank.tracks) {
      if (!track.spans.empty()) first = std::min(first, track.spans.front().begin_ns + rank.clock.offset_ns);
    }
  }
  return first;
}

class Writer {
 public:
  explicit Writer(std::string& text) : text_(text), out_(std::back_inserter(text)) {}

  void name(const char* of, int64_t process, size_t thread, const std::string& name) {
    event(R"({{"ph":"M","name":"{}","pid":{},"tid":{},"args":{{"name":{}}}}})", of, process, thread, json_text(name));
  }
  void order(const char* of, int64_t process, size_t thread) {
    event(R"({{"ph":"M","name":"{}","pid":{},"tid":{},"args":{{"sort_index":{}}}}})", of, process, thread,
          thread == 0 ? process : static_cast<int64_t>(thread));
  }
  // `quoted` is the name as JSON.
  void span(const ProfileSpan& span, const std::string& quoted, int64_t process, size_t thread, int64_t begin_ns) {
    event(R"({{"ph":"X","name":{},"cat":"{}","pid":{},"tid":{},"ts":{:.3f},"dur":{:.3f})", quoted, span_kind_name(span.kind),
          process, thread, static_cast<double>(begin_ns) * kMicrosecond, static_cast<double>(span.duration_ns) * kMicrosecond);
    if (span.number >= 0) fmt::format_to(out_, R"(,"args":{{"{}":{}}})", number_word(span.kind), span.number);
    text_ += '}';
  }

 private:
  template <typename... Values>
  void event(fmt::format_string<Values...> words, Values&&... values) {
    text_ += first_ ? "\n" : ",\n";
    first_ = false;
    fmt::format_to(out_, words, std::forward<Values>(values)...);
  }

  std::string& text_;
  std::back_insert_iterator<std::string> out_;
  bool first_ = true;
};

void write_rank(Writer& writer, const ProfiledRank& rank, int64_t first_ns) {
  writer.name("process_name", rank.rank, 0, fmt::format("rank {} ({})", rank.rank, rank.worker));
  writer.order("process_sort_index", rank.rank, 0);
  std::vector<std::string> quoted;
  for (const std::string& name : rank.names) quoted.push_back(json_text(name));
  for (size_t i = 0; i < rank.tracks.size(); ++i) {
    const ProfileTrack& track = rank.tracks[i];
    const size_t thread = i + 1;
    writer.name("thread_name", rank.rank, thread, track.thread);
    writer.order("thread_sort_index", rank.rank, thread);
    for (const ProfileSpan& span : track.spans) {
      writer.span(span, quoted[static_cast<size_t>(span.name)], rank.rank, thread,
                  span.begin_ns + rank.clock.offset_ns - first_ns);
    }
  }
}

}  // namespace

std::string trace_text(const MergedProfile& merged, const std::string& title) {
  std::string text =
      fmt::format(R"({{"displayTimeUnit":"ms","otherData":{},"traceEvents":[)", json_text(metadata_of(merged, title)));
  Writer writer(text);
  const int64_t first_ns = first_begin(merged);
  for (const ProfiledRank& rank : merged.ranks) {
    if (rank.spans > 0) write_rank(writer, rank, first_ns);
  }
  text += "\n]}\n";
  return text;
}

}  // namespace holdfast::rendezvous

// Spans of time: what a thread of this process does, from the making of a Span to its end.
//
// Promises: while nobody wants spans, a Span costs one relaxed load and nothing else happens. While a recording is under way
// (recorder.h) it is kept there, and shown to a GPU maker's profiler as a range (ranges.h), where there is one.
// Thread: any; a Span ends on the thread that made it, and Spans of one thread end in the reverse order.
#pragma once

#include <atomic>
#include <cstdint>

#include "rendezvous/protocol/profile.h"

namespace holdfast::worker {

using rendezvous::SpanKind;

namespace detail {
// The wish for spans. 0: nobody has one; else twice the number of the recording under way, which is 0 for none, and 1 for
// ranges.
extern std::atomic<uint64_t> wanted;
}  // namespace detail

// Whether somebody wants spans: a recording is under way, or ranges are always shown.
inline bool spans_are_wanted() {
  return detail::wanted.load(std::memory_order_relaxed) != 0;
}

class Span {
 public:
  // `name` is never freed. `number` says which of its name it is; -1: nothing.
  Span(SpanKind kind, const char* name, int64_t number = -1) : kind_(kind), name_(name), number_(number) {
    wanted_ = detail::wanted.load(std::memory_order_relaxed);
    if (wanted_ != 0) [[unlikely]]
      begin();
  }
  ~Span() {
    if (wanted_ != 0) [[unlikely]]
      end();
  }
  Span(const Span&) = delete;
  Span& operator=(const Span&) = delete;

  // Whether it is being recorded.
  bool is_recorded() const { return wanted_ > 1; }
  // It turns out to be something else.
  void becomes(SpanKind kind, const char* name) {
    kind_ = kind;
    name_ = name;
  }

 private:
  void begin();
  void end();

  uint64_t wanted_;
  SpanKind kind_;
  const char* name_;
  int64_t number_;
  int64_t begin_ns_ = 0;
};

}  // namespace holdfast::worker

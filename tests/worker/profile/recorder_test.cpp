#include "worker/profile/recorder.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <thread>
#include <vector>

#include "worker/profile/ranges.h"

namespace holdfast::worker {
namespace {

std::vector<std::string> threads_of(const Recording& recording) {
  std::vector<std::string> threads;
  for (const RecordedTrack& track : recording.tracks) threads.push_back(track.thread);
  std::ranges::sort(threads);
  return threads;
}

TEST(Recorder, KeepsWhatHappenedBetweenStartAndStop) {
  { const Span before(SpanKind::kOp, "before"); }
  start_recording(100, 100);
  {
    const Span outer(SpanKind::kPhase, "outer", 7);
    const Span inner(SpanKind::kOp, "inner");
  }
  const Recording recording = stop_recording();
  { const Span after(SpanKind::kOp, "after"); }
  ASSERT_EQ(recording.tracks.size(), 1U);
  const auto& spans = recording.tracks[0].spans;
  ASSERT_EQ(spans.size(), 2U);
  EXPECT_STREQ(spans[0].name, "inner");
  EXPECT_STREQ(spans[1].name, "outer");
  EXPECT_EQ(spans[1].number, 7);
  EXPECT_LE(spans[1].begin_ns, spans[0].begin_ns);
  EXPECT_GE(spans[1].begin_ns + spans[1].duration_ns, spans[0].begin_ns + spans[0].duration_ns);
  EXPECT_TRUE(stop_recording().tracks.empty());
}

TEST(Recorder, ASpanAcrossABorderIsNotInIt) {
  {
    const Span across(SpanKind::kOp, "across the start");
    start_recording(100, 100);
  }
  Recording recording;
  {
    const Span across(SpanKind::kOp, "across the end");
    recording = stop_recording();
  }
  EXPECT_TRUE(recording.tracks.empty());
  start_recording(100, 100);
  EXPECT_TRUE(stop_recording().tracks.empty()) << "nor in the next one";
}

TEST(Recorder, KeepsNoMoreThanItMayAndCountsTheRest) {
  start_recording(3, 2);
  for (int i = 0; i < 10; ++i) {
    const Span phase(SpanKind::kPhase, "phase");
    const Span op(SpanKind::kOp, "op");
  }
  const Recording recording = stop_recording();
  EXPECT_EQ(recording.tracks[0].spans.size(), 5U);
  EXPECT_EQ(recording.dropped, 15);
}

TEST(Recorder, ThreadsOfOneRoleThatFollowEachOtherShareATrack) {
  start_recording(1000, 10);
  const auto work = [] {
    name_thread("reduction");
    const Span span(SpanKind::kBucket, "bucket");
  };
  for (int step = 0; step < 50; ++step) std::thread(work).join();
  const Recording recording = stop_recording();
  ASSERT_EQ(threads_of(recording), (std::vector<std::string>{"reduction"}));
  EXPECT_EQ(recording.tracks[0].spans.size(), 50U);
}

TEST(Recorder, ThreadsSideBySideHaveTracksOfTheirOwn) {
  start_recording(100'000, 10);
  std::vector<std::jthread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([] {
      name_thread("writer");
      for (int k = 0; k < 1000; ++k) const Span span(SpanKind::kOther, "work");
    });
  }
  threads.clear();
  const Recording recording = stop_recording();
  size_t spans = 0;
  for (const RecordedTrack& track : recording.tracks) {
    spans += track.spans.size();
    for (size_t i = 1; i < track.spans.size(); ++i)
      EXPECT_GE(track.spans[i].begin_ns, track.spans[i - 1].begin_ns + track.spans[i - 1].duration_ns);
  }
  EXPECT_EQ(spans, 4000U);
}

TEST(Recorder, StartsAndStopsWhileThreadsWork) {
  std::atomic<bool> stop{false};
  std::vector<std::jthread> threads;
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([&stop] {
      name_thread("busy");
      while (!stop) const Span span(SpanKind::kOp, "op");
    });
  }
  for (int round = 0; round < 200; ++round) {
    start_recording(1000, 10);
    std::this_thread::yield();
    const Recording recording = stop_recording();
    for (const RecordedTrack& track : recording.tracks) EXPECT_LE(track.spans.size(), 1000U);
  }
  stop = true;
}

TEST(Recorder, ASpanOfAKnownLengthIsCutAtTheBeginning) {
  start_recording(10, 10);
  record_span(SpanKind::kCheckpoint, "write", std::chrono::hours(1));
  const Recording recording = stop_recording();
  EXPECT_LT(recording.tracks[0].spans[0].duration_ns, 3'600'000'000'000);
}

TEST(Ranges, ALibraryThatIsNotThereIsNoError) {
  EXPECT_FALSE(load_ranges("libno-such-library.so.9", "push", "pop"));
  push_range("nothing");
  pop_range();
}

TEST(Ranges, SpansArePushedAndPoppedWhileRecordingAndAlwaysWhereThatIsWished) {
  ASSERT_FALSE(load_ranges(COUNTING_RANGES, "pushRange", "noSuchFunction"));
  ASSERT_TRUE(load_ranges(COUNTING_RANGES, "pushRange", "popRange"));
  void* const library = dlopen(COUNTING_RANGES, RTLD_NOW);
  const auto depth = reinterpret_cast<int (*)()>(dlsym(library, "depthOfRanges"));
  const auto pushes = reinterpret_cast<int (*)()>(dlsym(library, "pushesOfRanges"));
  { const Span span(SpanKind::kOp, "unseen"); }
  EXPECT_EQ(pushes(), 0);
  start_recording(10, 10);
  {
    const Span span(SpanKind::kOp, "seen");
    EXPECT_EQ(depth(), 1);
  }
  EXPECT_EQ(depth(), 0);
  stop_recording();
  always_show_ranges(true);
  {
    const Span span(SpanKind::kOp, "seen without a recording");
    EXPECT_EQ(depth(), 1);
    EXPECT_FALSE(span.is_recorded());
  }
  always_show_ranges(false);
  EXPECT_EQ(pushes(), 2);
  EXPECT_EQ(depth(), 0);
  dlclose(library);
}

}  // namespace
}  // namespace holdfast::worker

#include "worker/profile/profiler.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "rendezvous/protocol/messages.h"

namespace holdfast::worker {
namespace {

using rendezvous::ProfileOrder;
using rendezvous::ProfilePart;

class ProfilerTest : public testing::Test {
 protected:
  void step(int64_t number, bool completed = true) {
    ProfiledStep profiled(profiler_, number);
    { const Span phase(SpanKind::kPhase, "accumulate"); }
    if (completed) profiled.completed();
  }
  // "step 5 accumulate …" of the one track.
  static std::string words(const RecordedProfile& profile) {
    std::string text;
    for (const RecordedTrack& track : profile.recording.tracks) {
      for (const RecordedSpan& span : track.spans) {
        if (span.kind != SpanKind::kPhase) text += std::string(span.name) + " " + std::to_string(span.number) + "; ";
      }
    }
    return text;
  }

  std::vector<RecordedProfile> recorded_;
  Profiler profiler_{[this](RecordedProfile profile) { recorded_.push_back(std::move(profile)); }};
};

TEST_F(ProfilerTest, RecordsTheStepsOfTheOrderAndNoOthers) {
  profiler_.want(ProfileOrder{"p1", 5, 2, 1000});
  for (int64_t number = 3; number <= 9; ++number) step(number);
  ASSERT_EQ(recorded_.size(), 1U);
  EXPECT_EQ(recorded_[0].id, "p1");
  EXPECT_EQ(recorded_[0].ended, "");
  EXPECT_EQ(words(recorded_[0]), "step 5; step 6; ");
}

TEST_F(ProfilerTest, HandsOverAfterTheLastStepAlsoWhereNoOtherFollows) {
  profiler_.want(ProfileOrder{"p1", 5, 1, 1000});
  step(5);
  EXPECT_EQ(recorded_.size(), 1U);
}

TEST_F(ProfilerTest, AnOrderThatComesLateIsCarriedOutAsFarAsItCanBe) {
  profiler_.want(ProfileOrder{"p1", 5, 3, 1000});
  for (int64_t number = 7; number <= 9; ++number) step(number);
  EXPECT_EQ(words(recorded_[0]), "step 7; ");
  profiler_.want(ProfileOrder{"p2", 5, 3, 1000});
  step(10);
  ASSERT_EQ(recorded_.size(), 2U);
  EXPECT_EQ(recorded_[1].ended, "the order came when its steps were done");
}

TEST_F(ProfilerTest, ARunThatEndsInTheMiddleHandsOverWithItsReason) {
  profiler_.want(ProfileOrder{"p1", 5, 10, 1000});
  step(5);
  step(6, false);
  profiler_.end("a lost its connection to b");
  ASSERT_EQ(recorded_.size(), 1U);
  EXPECT_EQ(recorded_[0].ended, "a lost its connection to b");
  EXPECT_EQ(words(recorded_[0]), "step 5; a step that was broken off 6; ");
  step(7);
  EXPECT_EQ(recorded_.size(), 1U) << "the next run has no order";
}

TEST_F(ProfilerTest, ARunThatEndsBeforeTheFirstStepOfAnOrderSaysSo) {
  profiler_.want(ProfileOrder{"p1", 5, 10, 1000});
  step(3);
  profiler_.end("w2 joins");
  ASSERT_EQ(recorded_.size(), 1U);
  EXPECT_EQ(recorded_[0].ended, "w2 joins");
  EXPECT_EQ(words(recorded_[0]), "");
}

TEST_F(ProfilerTest, AnOrderThatIsTakenBackDropsWhatWasRecorded) {
  profiler_.want(ProfileOrder{"p1", 5, 10, 1000});
  step(5);
  profiler_.want(std::nullopt);
  step(6);
  profiler_.want(ProfileOrder{"p2", 7, 1, 1000});
  step(7);
  ASSERT_EQ(recorded_.size(), 1U);
  EXPECT_EQ(words(recorded_[0]), "step 7; ");
}

TEST_F(ProfilerTest, APartGoesInPiecesThatABodyHasRoomFor) {
  constexpr int64_t kOps = 40'000;
  profiler_.want(ProfileOrder{"p1", 5, 1, kOps});
  {
    ProfiledStep profiled(profiler_, 5);
    for (int64_t i = 0; i < kOps; ++i) const Span op(SpanKind::kOp, i % 2 == 0 ? "matmul forward" : "matmul backward", i);
    profiled.completed();
  }
  const auto pieces = pieces_of(recorded_[0], "w1", "i1");
  ASSERT_EQ(pieces.size(), 3U);
  size_t spans = 0;
  for (size_t i = 0; i < pieces.size(); ++i) {
    const std::string body = rendezvous::json_text(pieces[i]);
    EXPECT_LT(body.size(), size_t{1} << 20);
    const auto read = nlohmann::json::parse(body).get<ProfilePart>();
    EXPECT_EQ(read.piece, static_cast<int64_t>(i));
    EXPECT_EQ(read.pieces, 3);
    EXPECT_EQ(read.tracks, pieces[i].tracks);
    EXPECT_EQ(read.names, pieces[i].names);
    spans += read.tracks[0].spans.size();
  }
  EXPECT_EQ(spans, static_cast<size_t>(kOps) + 1);
}

}  // namespace
}  // namespace holdfast::worker

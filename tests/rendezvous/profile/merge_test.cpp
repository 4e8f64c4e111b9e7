// Parts become one profile: steps, costs, trace.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "rendezvous/profile/merged.h"
#include "rendezvous/profile/trace.h"
#include "tests/rendezvous/profile/parts.h"

namespace holdfast::rendezvous {
namespace {

using Json = nlohmann::json;

const ProfileCost* cost_of(const MergedProfile& merged, const std::string& name) {
  const auto found = std::ranges::find(merged.costs, name, &ProfileCost::name);
  return found == merged.costs.end() ? nullptr : &*found;
}

MergedProfile two_ranks(int64_t offset_us) {
  PartMaker first("a"), second("b");
  for (int64_t step = 4; step <= 6; ++step) {
    first.step(step, step * 1000);
    second.step(step, step * 1000 + offset_us);
  }
  return merge({{"a", {first.part}, ""}, {"b", {second.part}, ""}});
}

TEST(Merge, PhasesTileTheStepAndCostsAreASpansOwnTime) {
  const MergedProfile merged = two_ranks(5'000'000);
  EXPECT_EQ(merged.failure, "");
  EXPECT_EQ(merged.first_step, 4);
  EXPECT_EQ(merged.last_step, 6);
  ASSERT_EQ(merged.phases.size(), 2U);
  EXPECT_EQ(merged.phases[0].name, "accumulate");
  EXPECT_NEAR(merged.phases[0].seconds, 80e-6, 1e-9);
  EXPECT_NEAR(merged.phases[1].seconds, 20e-6, 1e-9);
  EXPECT_NEAR(cost_of(merged, "matmul")->seconds, 60e-6, 1e-9);
  EXPECT_EQ(cost_of(merged, "matmul")->ranks.size(), 2U);
  EXPECT_NEAR(cost_of(merged, "accumulate (itself)")->seconds, 20e-6, 1e-9);
  EXPECT_NEAR(cost_of(merged, "all-gather")->seconds, 16e-6, 1e-9);
  EXPECT_EQ(merged.costs.front().name, "matmul");
}

TEST(Merge, ClocksAreAlignedByTheAllGathers) {
  const MergedProfile merged = two_ranks(5'000'000);
  ASSERT_TRUE(merged.ranks[1].aligned);
  EXPECT_NEAR(static_cast<double>(merged.ranks[1].clock.offset_ns), -5e9, 16'000);
  EXPECT_LE(merged.ranks[1].clock.error_ns, 16'000);
}

TEST(Merge, StepsThatARankDidNotFinishDoNotCount) {
  PartMaker first("a"), second("b");
  for (int64_t step = 1; step <= 3; ++step) first.step(step, step * 100);
  for (int64_t step = 2; step <= 3; ++step) second.step(step, step * 100);
  second.span("train", SpanKind::kOther, "a step that was broken off", 400, 420, 4);
  second.part.ended = "its neighbour was lost";
  const MergedProfile merged = merge({{"a", {first.part}, ""}, {"b", {second.part}, ""}, {"c", {}, "c was lost"}});
  EXPECT_EQ(merged.failure, "");
  EXPECT_EQ(merged.first_step, 2);
  EXPECT_EQ(merged.steps, 2);
  EXPECT_EQ(merged.ranks[1].ended, "its neighbour was lost");
  EXPECT_EQ(merged.ranks[2].missing, "c was lost");
  EXPECT_NEAR(merged.step_s, 100e-6, 1e-9);
}

TEST(Merge, WithoutAWholeStepItSaysWhy) {
  PartMaker first("a");
  first.part.ended = "the run ended";
  const MergedProfile merged = merge({{"a", {first.part}, ""}, {"b", {}, "b was lost while it recorded"}});
  EXPECT_EQ(merged.failure,
            "the ranks have no whole step in common; rank 0 (a): the run ended and rank 1 (b): b was lost while it recorded");
}

TEST(Merge, PiecesInAnyOrderAreOnePart) {
  PartMaker all("a");
  for (int64_t step = 1; step <= 4; ++step) all.step(step, step * 100);
  ProfilePart early = all.part, late = all.part;
  early.pieces = late.pieces = 2;
  late.piece = 1;
  early.tracks[0].spans.resize(8);
  late.tracks[0].spans.erase(late.tracks[0].spans.begin(), late.tracks[0].spans.begin() + 8);
  late.names.insert(late.names.begin(), "a name of its own");
  for (ProfileSpan& span : late.tracks[0].spans) ++span.name;
  const MergedProfile whole = merge({{"a", {all.part}, ""}}), pieces = merge({{"a", {late, early}, ""}});
  EXPECT_EQ(pieces.ranks[0].tracks, whole.ranks[0].tracks);
  EXPECT_EQ(pieces.steps, 4);
}

TEST(Merge, OfARankThatDroppedSpansTheStepsBeforeCount) {
  PartMaker part("a");
  for (int64_t step = 1; step <= 2; ++step) part.step(step, step * 100);
  for (int64_t step = 3; step <= 9; ++step) {  // their ops found no room
    part.span("train", SpanKind::kPhase, "accumulate", step * 100, step * 100 + 100)
        .span("train", SpanKind::kStep, "step", step * 100, step * 100 + 100, step);
  }
  part.span("train", SpanKind::kOp, "matmul", 310, 312);  // the last that was kept
  part.part.dropped = 99;
  const MergedProfile merged = merge({{"a", {part.part}, ""}});
  EXPECT_EQ(merged.steps, 9);
  EXPECT_NEAR(cost_of(merged, "matmul")->seconds, 60e-6, 1e-9);
}

TEST(Merge, WorkOnOtherThreadsCountsAsFarAsItFallsIntoTheSteps) {
  PartMaker part("a");
  part.step(1, 100).step(2, 200);
  part.span("checkpoint writer 2", SpanKind::kCheckpoint, "write", 0, 150)
      .span("checkpoint writer", SpanKind::kCheckpoint, "write", 250, 900);
  const MergedProfile merged = merge({{"a", {part.part}, ""}});
  const ProfileCost* write = cost_of(merged, "write");
  EXPECT_EQ(write->thread, "checkpoint writer");
  EXPECT_NEAR(write->seconds, 50e-6, 1e-9);
}

TEST(Trace, EveryRankIsAProcessAndItsThreadsHaveNames) {
  const MergedProfile merged = two_ranks(5'000'000);
  const Json trace = Json::parse(trace_text(merged, "j1, profile p"));
  std::map<std::string, int> names;
  double first = 1e18, last = -1;
  for (const Json& event : trace["traceEvents"]) {
    if (event["ph"] == "M" && event["args"].contains("name")) ++names[event["args"]["name"]];
    if (event["ph"] != "X") continue;
    first = std::min(first, event["ts"].get<double>());
    last = std::max(last, event["ts"].get<double>() + event["dur"].get<double>());
  }
  EXPECT_EQ(names, (std::map<std::string, int>{{"rank 0 (a)", 1}, {"rank 1 (b)", 1}, {"train", 2}}));
  EXPECT_NEAR(first, 0, 1e-9);
  EXPECT_NEAR(last, 2100, 20) << "5 s of difference between the clocks are gone";
  EXPECT_EQ(trace["otherData"]["ranks"][1]["clock_error_us"], merged.ranks[1].clock.error_ns / 1000.0);
}

TEST(Trace, NamesCannotBreakTheText) {
  PartMaker part("w\"\\");
  part.step(1, 0).span("th\"read", SpanKind::kOp, "na\"me\n\\", 200, 201);
  const Json trace = Json::parse(trace_text(merge({{"w\"\\", {part.part}, ""}}), "a \"title\""));
  EXPECT_EQ(trace["otherData"]["title"], "a \"title\"");
}

}  // namespace
}  // namespace holdfast::rendezvous

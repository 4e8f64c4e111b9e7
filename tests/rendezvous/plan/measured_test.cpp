// Known steps, and the speeds of a device and a link that they tell.
#include "rendezvous/plan/measured.h"

#include <gtest/gtest.h>

#include <vector>

namespace holdfast::rendezvous {
namespace {

PlanInputs tiny_without_overlap() {
  PlanInputs inputs;
  inputs.model = {.n_layer = 6, .n_embd = 384, .n_head = 6, .vocab_size = 50257, .block_size = 512};
  inputs.wire = *find_wire_type("int16");
  inputs.overlap = false;
  inputs.round_trip_s = 0.001;
  return inputs;
}

// One step of warm-up, then rank 0 computes 4 microbatches in 2 s and waits for the ring for half a second.
std::vector<StepTime> steps_of(int64_t nodes) {
  std::vector<StepTime> steps(7, {2.5, 0.5, 4, nodes});
  steps[0] = {9, 0.1, 4, nodes};
  return steps;
}

TEST(MicrobatchSeconds, AreTheComputingTimeOfRank0DividedByItsMicrobatches) {
  EXPECT_DOUBLE_EQ(microbatch_seconds(steps_of(2)), 0.5);
  EXPECT_EQ(microbatch_seconds(std::vector<StepTime>{{9, 0, 4, 1}}), 0) << "the first step alone tells nothing";
  EXPECT_EQ(microbatch_seconds({}), 0);
  std::vector<StepTime> undealt = steps_of(2);
  for (StepTime& step : undealt) step.microbatches = 0;
  EXPECT_EQ(microbatch_seconds(undealt), 0) << "nothing says what rank 0 computed";
}

TEST(MicrobatchSeconds, AreAMedianSoThatOneSlowStepChangesNothing) {
  std::vector<StepTime> steps = steps_of(2);
  steps[3].step_s = 60;
  EXPECT_DOUBLE_EQ(microbatch_seconds(steps), 0.5);
}

TEST(LinkRate, IsTheBytesOfASyncOverTheTimeRank0WaitedWithoutTheRoundTrips) {
  const PlanInputs inputs = tiny_without_overlap();
  const double latency = (3 + 31) * 0.001;
  EXPECT_NEAR(link_rate(steps_of(2), inputs), 2 * 30142848 / (0.5 - latency), 1);
  const double latency_of_three = 2 * latency;
  EXPECT_NEAR(link_rate(steps_of(3), inputs), 2 * 2.0 / 3 * 2 * 30142848 / (0.5 - latency_of_three), 1);
}

TEST(LinkRate, OfALinkThatThePlannerKnowsIsThatOfTheLink) {
  PlanInputs inputs = tiny_without_overlap();
  inputs.link_bytes_per_s = 119e6;
  inputs.microbatch_s = 1;
  for (const char* wire : {"int32", "int16", "float32", "int8"}) {
    inputs.wire = *find_wire_type(wire);
    const PlanFigures figures = figures_of(inputs);
    const std::vector<StepTime> steps(5, {figures.optimizer_step_s, figures.exposed_s, 1, 2});
    EXPECT_NEAR(link_rate(steps, inputs), 119e6, 1) << wire;
  }
}

TEST(LinkRate, IsNotKnownOfOneNodeNorOfSyncsThatWereHiddenInPart) {
  PlanInputs inputs = tiny_without_overlap();
  EXPECT_EQ(link_rate(steps_of(1), inputs), 0);
  EXPECT_EQ(link_rate(steps_of(0), inputs), 0);
  inputs.overlap = true;
  EXPECT_EQ(link_rate(steps_of(2), inputs), 0);
  inputs.sync_every = 8;
  EXPECT_GT(link_rate(steps_of(2), inputs), 0) << "nothing is hidden of a sync that comes after local steps";
}

}  // namespace
}  // namespace holdfast::rendezvous

// Jobs in float16: the same bits at any world size while the loss scale is looked for, and refusals that are no faults.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <map>

#include "tests/worker/step/same_bits_fixture.h"

namespace holdfast::worker {
namespace {

using model::LossScale;

LossScale loss_scale(TestRank& rank) {
  LossScale scale;
  std::memcpy(&scale, rank.session->state->tensors().back().data, sizeof scale);
  return scale;
}

void set_loss_scale(TestRank& rank, LossScale scale) {
  std::memcpy(rank.session->state->tensors().back().data, &scale, sizeof scale);
  rank.session->state->bytes_changed();
}

// A scale that 16 tokens with a vocabulary of 48 are sure to overflow with: their largest gradient of a logit is near 2^20.
constexpr LossScale kTooLarge{.log2 = 24, .accepted = 0};

class InFloat16 : public SameBits {
 protected:
  InFloat16() {
    spec = tiny_spec(data);
    spec.dtype = "float16";
    // On every rank alike.
    tamper = [](TestRank& rank, size_t, int64_t step) {
      if (step == 4) set_loss_scale(rank, kTooLarge);
    };
  }

  std::map<int64_t, nlohmann::json> points() {
    std::map<int64_t, nlohmann::json> all;
    for (const auto& report : service.received("/progress")) {
      for (const auto& p : report["points"]) all[p["step"]] = p;
    }
    return all;
  }

  rendezvous::JobSpec spec;
};

TEST_F(InFloat16, BitsAreTheSameAtAnyWorldSizeWhileTheLossScaleIsLookedFor) {
  for (const char* wire : {"int32", "int16"}) {
    spec.wire_dtype = wire;
    const std::string one = undisturbed(spec, 1);
    for (int world_size = 2; world_size <= 3; ++world_size)
      EXPECT_EQ(undisturbed(spec, world_size), one) << world_size << " ranks, " << wire;
  }
}

TEST_F(InFloat16, BitsAreTheSameWhenGradientsOutgrowTheirFixedPointScaleToo) {
  tamper = [](TestRank& rank, size_t, int64_t step) {
    if (step == 4) set_loss_scale(rank, kTooLarge);
    if (step != 11) return;
    for (int32_t& exponent : rank.session->state->exponents()) exponent += 9;
  };
  const std::string one = undisturbed(spec, 1);
  EXPECT_GE(events("gradients_repacked").size(), 1U);
  for (int world_size = 2; world_size <= 3; ++world_size)
    EXPECT_EQ(undisturbed(spec, world_size), one) << world_size << " ranks";
}

TEST_F(InFloat16, AStepThatOnlyFindsTheScaleIsToldAndCountsForNothing) {
  spec.max_refused_steps = 2;  // though there are at least four in a row
  undisturbed(spec, 2);
  const auto told = events("loss_scale_lowered", 4);
  const std::string of_step_8 =
      "step 8 is left out: its loss or gradient is not finite. The loss scale 2097152 was too large for float16 and is now "
      "1048576; parameters stay as they are on all ranks";
  EXPECT_EQ(std::ranges::count(told, of_step_8), 1) << told.front();
  EXPECT_EQ(points().at(8)["loss"], "nan");
  for (const auto& event : service.received("/events")) EXPECT_NE(event["kind"], "step_refused");
}

TEST_F(InFloat16, WhatNoScaleHelpsEndsTheJob) {
  spec.max_refused_steps = 2;
  Ranks ranks(spec, service);
  ranks.add();
  ranks.add();
  ranks.on_commit = [](TestRank& rank, size_t, int64_t step) {
    if (step < 5) return;
    if (step == 5) set_loss_scale(rank, {.log2 = 2, .accepted = 0});
    *rank.session->model->parameters() = std::numeric_limits<float>::infinity();
    rank.session->state->bytes_changed();
  };
  std::jthread service_thread([&] {
    EXPECT_TRUE(service.wait_for("/progress", [](const auto& all) { return !all.empty() && all.back()["failure"] != ""; }));
    ranks.interrupt_all("idle");
  });
  ranks.run(Ranks::initial());
  EXPECT_EQ(service.received("/progress").back()["failure"],
            "the loss or gradient was not finite in 2 steps in a row, 8 to 9 (max_refused_steps is 2): lower learning_rate, "
            "raise warmup_steps, or look at the data of these steps");
  EXPECT_EQ(loss_scale(ranks[0]).log2, 0);
}

TEST_F(InFloat16, AResumedJobGoesOnWithTheScaleItHad) {
  const std::string undisturbed_hash = undisturbed(spec, 1);
  LossScale written;
  rendezvous::StateSource source;
  {
    Ranks first(spec, service);
    source = checkpoint_after(12, spec, first);
    written = loss_scale(first[0]);
  }
  EXPECT_NE(written.log2, LossScale::kFirstLog2) << "or this would show nothing";
  Ranks ranks(spec, service);
  for (int i = 0; i < 3; ++i) ranks.add();
  run_to_end(ranks, source);
  EXPECT_EQ(ranks.hash(), undisturbed_hash);
}

// A generation that broke after step 8 was left out for its scale, when one of two ranks had not heard of it.
TEST_F(InFloat16, WhoMissedThatAStepWasLeftOutTakesTheWordAndTheScale) {
  tamper = [](TestRank& rank, size_t, int64_t step) {
    if (step == 7) set_loss_scale(rank, kTooLarge);
  };
  const std::string undisturbed_hash = undisturbed(spec, 1);
  Ranks ranks(spec, service);
  ranks.add();
  ranks.add();
  ranks.on_commit = [this](TestRank& rank, size_t number, int64_t step) {
    tamper(rank, number, step);
    if (step == 7) rank.requests.yield = true;
  };
  ranks.run(Ranks::initial());
  ASSERT_EQ(ranks[0].session->state->step, 8);
  EXPECT_EQ(loss_scale(ranks[0]).log2, 23);
  Session& behind = *ranks[1].session;  // it changed nothing else
  behind.state->step = behind.applied_step = 7;
  behind.refused_last = false;
  set_loss_scale(ranks[1], kTooLarge);
  ranks.on_commit = tamper;
  run_to_end(ranks, Ranks::memory(8));
  const StateAgreement& agreed = ranks.agreements()[1];
  EXPECT_TRUE(agreed.received);
  EXPECT_EQ(agreed.how, StateAgreement::How::kGradient);
  EXPECT_TRUE(agreed.refused);
  EXPECT_EQ(agreed.bytes, 0);
  EXPECT_EQ(ranks.hash(), undisturbed_hash);
}

TEST_F(InFloat16, TheFloatReductionTrainsToo) {
  spec.reduction = "float";
  for (const char* wire : {"float32", "bfloat16", "float16", "int8"}) {
    SCOPED_TRACE(wire);
    spec.wire_dtype = wire;
    EXPECT_FALSE(undisturbed(spec, 3).empty()) << "all ranks have the same bits, though other than at another world size";
    const auto all = points();
    EXPECT_FALSE(all.at(20).value("refused", false));
    EXPECT_LT(all.at(20)["gradient_norm"].get<double>(), 10.0) << "the scale is taken out of sums of floats, too";
  }
}

}  // namespace
}  // namespace holdfast::worker

// The optimizer's settings as a job's spec has them: a worker trains by each of them.
#include <gtest/gtest.h>

#include <utility>

#include "worker/session/session.h"

namespace holdfast::worker {
namespace {

TEST(OptimizerOfAJob, HasTheSpecsNumbersAndCountsLocalSteps) {
  rendezvous::JobSpec spec;
  spec.learning_rate = 0.5;
  spec.min_lr = 0.25;
  spec.weight_decay = 0.125;
  spec.beta1 = 0.75;
  spec.beta2 = 0.875;
  spec.grad_clip = 3;
  spec.lr_schedule = "linear";
  spec.total_steps = 50;
  spec.warmup_steps = 3;
  spec.decay_steps = 7;
  spec.schedule_start = 5;
  spec.sync_every = 4;
  const model::OptimizerConfig config = optimizer_config(spec);
  EXPECT_EQ(config.learning_rate, 0.5);
  EXPECT_EQ(config.min_lr, 0.25);
  EXPECT_EQ(config.weight_decay, 0.125);
  EXPECT_EQ(config.beta1, 0.75);
  EXPECT_EQ(config.beta2, 0.875);
  EXPECT_EQ(config.grad_clip, 3);
  EXPECT_EQ(config.schedule, model::Schedule::kLinear);
  EXPECT_EQ(config.total_steps, 200);
  EXPECT_EQ(config.warmup_steps, 12);
  EXPECT_EQ(config.decay_steps, 28);
  EXPECT_EQ(config.schedule_start, 20);
}

TEST(OptimizerOfAJob, HasEachScheduleThatTheSpecNames) {
  for (const auto& [name, schedule] :
       {std::pair{"cosine", model::Schedule::kCosine}, std::pair{"linear", model::Schedule::kLinear},
        std::pair{"constant", model::Schedule::kConstant}, std::pair{"wsd", model::Schedule::kWarmupStableDecay}}) {
    rendezvous::JobSpec spec;
    spec.lr_schedule = name;
    EXPECT_EQ(optimizer_config(spec).schedule, schedule) << name;
  }
}

}  // namespace
}  // namespace holdfast::worker

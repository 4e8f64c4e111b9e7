// The loss scale of float16: how it is found, that it is part of the state, and that training is the same with and without it.
#include "model/loss_scale.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "model/state/train_state.h"
#include "tests/model/small_model.h"

namespace holdfast::model {
namespace {

using kernels::DType;

TEST(LossScale, IsHalvedByEveryRefusedStepAndNeverBelowOne) {
  LossScale scale;
  EXPECT_EQ(scale.log2, 16);
  for (int32_t expected : {15, 14, 13}) {
    scale.step_left_out();
    EXPECT_EQ(scale.log2, expected);
  }
  for (int step = 0; step < 20; ++step) scale.step_left_out();
  EXPECT_EQ(scale.log2, 0);
}

TEST(LossScale, IsDoubledAfterAThousandStepsInARowWithoutARefusedOne) {
  LossScale scale;
  for (int step = 0; step < 999; ++step) scale.step_applied();
  EXPECT_EQ(scale.log2, 16);
  scale.step_applied();
  EXPECT_EQ(scale.log2, 17);
  for (int step = 0; step < 999; ++step) scale.step_applied();
  scale.step_left_out();
  scale.step_applied();
  EXPECT_EQ(scale.log2, 16) << "one that is left out breaks the row";
  EXPECT_EQ(scale.accepted, 1);
}

TEST(LossScale, EndsAt24Doublings) {
  LossScale scale;
  for (int step = 0; step < 20'000; ++step) scale.step_applied();
  EXPECT_EQ(scale.log2, 24);
}

// --- in the model

// A power of two changes no mantissa: apart from the scale, every bit of a float32 gradient is the same.
TEST(LossScale, ScalesEveryGradientExactly) {
  for (const bool cpu : {false, true}) {
    SmallModel model(cpu ? kernels::make_cpu_ops(DType::kFloat32, 2) : ref_float32());
    perturbed_parameters(model.gpt2, *model.ops, 5);
    const Microbatch microbatch = random_microbatch(kSmallConfig, 2, 3);
    std::vector<float> expected = model.gradients(microbatch);
    for (float& gradient : expected) gradient = std::ldexp(gradient, 12);
    model.gpt2.set_loss_scale(12);
    EXPECT_EQ(model.gradients(microbatch), expected) << (cpu ? "cpu" : "ref");
  }
}

TEST(LossScale, DoesNotChangeTheLoss) {
  SmallModel model(kernels::make_ref_ops(DType::kFloat16));
  model.gpt2.initialize(1);
  const Microbatch microbatch = random_microbatch(kSmallConfig, 2, 3);
  const double loss = model.gpt2.train_microbatch(microbatch.tokens, microbatch.targets);
  model.gpt2.set_loss_scale(12);
  EXPECT_EQ(model.gpt2.train_microbatch(microbatch.tokens, microbatch.targets), loss);
}

// --- in the state

// A model of any dtype with its state.
struct Scaled {
  SmallModel model;
  TrainState state;

  explicit Scaled(std::unique_ptr<kernels::DeviceOps> ops) : model(std::move(ops)), state(model.gpt2, *model.ops) {
    model.gpt2.initialize(1);
  }
  explicit Scaled(DType dtype) : Scaled(kernels::make_ref_ops(dtype)) {}
};

TEST(TrainStateInFloat16, EndsWithTheLossScale) {
  Scaled half(DType::kFloat16);
  half.state.leave_out();
  const StateTensor tensor = half.state.tensors().back();
  EXPECT_EQ(tensor.name, "loss_scale");
  EXPECT_EQ(tensor.dtype, "int32");
  EXPECT_EQ(tensor.shape, std::vector<int64_t>{2});
  EXPECT_TRUE(tensor.on_host);
  const int32_t expected[] = {15, 0};
  ASSERT_EQ(tensor.bytes, sizeof expected);
  EXPECT_EQ(std::memcmp(tensor.data, expected, sizeof expected), 0);
}

TEST(TrainStateInFloat16, HandsItsScaleToTheModel) {
  Scaled half(DType::kFloat16);
  EXPECT_EQ(half.model.gpt2.loss_scale_log2(), 16);
  half.state.leave_out();
  EXPECT_EQ(half.state.loss_scale_log2(), 15);
  EXPECT_EQ(half.model.gpt2.loss_scale_log2(), 15);
  EXPECT_EQ(half.state.step, 1);
}

TEST(TrainStateInFloat16, HashesAndCopiesItsScale) {
  Scaled source(DType::kFloat16), copy(DType::kFloat16);
  const std::string before = source.state.hash();
  EXPECT_EQ(copy.state.hash(), before);
  source.state.leave_out();
  EXPECT_NE(source.state.hash(), before);
  const std::vector<StateTensor> from = source.state.tensors(), to = copy.state.tensors();
  for (size_t i = 0; i < from.size(); ++i) std::memcpy(to[i].data, from[i].data, from[i].bytes);
  copy.state.bytes_changed();
  EXPECT_EQ(copy.state.hash(), source.state.hash());
  EXPECT_EQ(copy.model.gpt2.loss_scale_log2(), 15);
}

TEST(TrainStateInFloat16, AloneHasAScale) {
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    Scaled other(dtype);
    EXPECT_EQ(other.state.tensors().back().name, "reduction/exponents");
    const std::string before = other.state.hash();
    other.state.leave_out();
    EXPECT_EQ(other.state.step, 1);
    EXPECT_EQ(other.state.hash(), before);
    EXPECT_EQ(other.model.gpt2.loss_scale_log2(), 0);
  }
}

// --- in training

const OptimizerConfig kConstantRate = {.learning_rate = 1e-2,
                                       .min_lr = 1e-2,
                                       .warmup_steps = 0,
                                       .total_steps = 1000,
                                       .weight_decay = 0.1,
                                       .beta1 = 0.9,
                                       .beta2 = 0.95,
                                       .epsilon = 1e-8,
                                       .grad_clip = 1.0};

// One step. Divides the scale out of the gradient, as a worker does. Returns whether the step was applied.
bool step(Scaled& trained, const Microbatch& microbatch, double& loss) {
  loss = trained.model.gpt2.train_microbatch(microbatch.tokens, microbatch.targets);
  const std::span<float> gradients(trained.model.gpt2.gradients(), static_cast<size_t>(trained.model.gpt2.table().total));
  for (float& gradient : gradients) gradient = std::ldexp(gradient, -trained.state.loss_scale_log2());
  if (std::isfinite(trained.state.apply(kConstantRate, gradients.data()))) return true;
  trained.state.leave_out();
  return false;
}

// The loss after 80 steps on one and the same microbatch, not counting the steps that only found the scale.
double learnt(std::unique_ptr<kernels::DeviceOps> ops) {
  Scaled trained(std::move(ops));
  const Microbatch microbatch = random_microbatch(kSmallConfig, 2, 3);
  double loss = 0;
  for (int tries = 0, applied = 0; applied < 80 && tries < 200; ++tries) {
    if (step(trained, microbatch, loss)) {
      ++applied;
    } else if (applied == 0) {
      trained.state.step = 0;  // so that AdamW's corrections are those of the first step
    }
  }
  return loss;
}

TEST(Float16, LearnsAsFloat32DoesOnEveryDevice) {
  const double expected = learnt(ref_float32());
  EXPECT_LT(expected, std::log(23.0) / 2);
  EXPECT_NEAR(learnt(kernels::make_ref_ops(DType::kFloat16)), expected, 0.1);
  EXPECT_NEAR(learnt(kernels::make_cpu_ops(DType::kFloat16, 2)), expected, 0.1);
}

// Begins with a scale that is far too large. The steps that find the right one change no parameter.
TEST(Float16, FindsAScaleThatFits) {
  Scaled half(DType::kFloat16);
  const Microbatch microbatch = random_microbatch(kSmallConfig, 2, 3);
  const int32_t most[] = {LossScale::kMostLog2, 0};
  std::memcpy(half.state.tensors().back().data, most, sizeof most);
  half.state.bytes_changed();
  const auto parameters = [&] {
    return read_floats(*half.model.ops, half.model.gpt2.parameters(), half.model.gpt2.table().total);
  };
  const std::vector<float> before = parameters();
  double loss = 0;
  int left_out = 0;
  while (left_out < 24 && !step(half, microbatch, loss)) {
    ++left_out;
    EXPECT_EQ(parameters(), before);
  }
  EXPECT_GE(left_out, 4) << "the loss of 16 tokens has gradients of nearly 2^24 / 16, and float16 ends at 2^16";
  EXPECT_EQ(half.state.loss_scale_log2(), LossScale::kMostLog2 - left_out);
  EXPECT_EQ(half.state.step, left_out + 1);
  EXPECT_NE(parameters(), before);
}

}  // namespace
}  // namespace holdfast::model

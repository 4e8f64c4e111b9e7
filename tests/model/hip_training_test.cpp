// A whole model trains on the hip op set. Its loss follows the cpu op set's loss. Its bits are the same in every run, in
// whatever order blocks and lanes run.
#include <gtest/gtest.h>

#include "model/optimizer.h"
#include "model/state/train_state.h"
#include "tests/kernels/hip_device.h"
#include "tests/model/small_model.h"

namespace holdfast::model {
namespace {

using kernels::DType;

constexpr int kSteps = 20;
constexpr int64_t kBatch = 2;
// Heads of 16 channels, more tokens than a tile of the attention has, and a vocabulary that is a prime number.
constexpr Gpt2Config kConfig = {.n_layer = 2, .n_embd = 32, .n_head = 2, .vocab_size = 131, .block_size = 40};
constexpr OptimizerConfig kOptimizer = {.learning_rate = 1e-2,
                                        .min_lr = 1e-3,
                                        .warmup_steps = 4,
                                        .total_steps = kSteps,
                                        .weight_decay = 0.1,
                                        .beta1 = 0.9,
                                        .beta2 = 0.95,
                                        .epsilon = 1e-8,
                                        .grad_clip = 1.0};

struct Trained {
  std::vector<double> losses;
  std::string hash;
};

// Trains on a few microbatches again and again, so that there is something to learn. `host`: where the state is offloaded to.
Trained train(kernels::DeviceOps& ops, kernels::DeviceOps* host = nullptr) {
  const ModelMemory memory{.masters = host == nullptr ? Masters::kInModel : Masters::kElsewhere};
  Gpt2 model(kConfig, ops, kBatch, Recompute::kNone, memory);
  TrainState state(model, ops, TrainState::Owns::kAll, host);
  EXPECT_TRUE(state.initialize(SeededValues(kConfig, 3)));
  Trained trained;
  for (int step = 0; step < kSteps; ++step) {
    const Microbatch microbatch = random_microbatch(kConfig, kBatch, static_cast<uint64_t>(step % 2));
    trained.losses.push_back(model.train_microbatch(microbatch.tokens, microbatch.targets));
    state.apply(kOptimizer, model.gradients());
  }
  trained.hash = state.hash();
  return trained;
}

class HipTraining : public ::testing::TestWithParam<std::tuple<DType, int>> {};

TEST_P(HipTraining, FollowsTheCpu) {
  if (const std::string reason = kernels::testing::reason_not_to_run(); !reason.empty()) GTEST_SKIP() << reason;
  const auto [dtype, wave] = GetParam();
  kernels::testing::use_wave(wave);
  kernels::testing::shuffle_with(1);
  const Trained on_gpu = train(*kernels::make_hip_ops(dtype, kernels::hip_devices_by_preference().front()));
  const Trained on_cpu = train(*kernels::make_cpu_ops(dtype, 1));
  EXPECT_LT(on_cpu.losses.back(), on_cpu.losses.front() - 0.5) << "it learns";
  const double allowed = dtype == DType::kFloat32 ? 1e-4 : 0.03;
  for (int step = 0; step < kSteps; ++step) EXPECT_NEAR(on_gpu.losses[step], on_cpu.losses[step], allowed) << "step " << step;
  kernels::testing::shuffle_with(2);
  EXPECT_EQ(train(*kernels::make_hip_ops(dtype, kernels::hip_devices_by_preference().front())).hash, on_gpu.hash);
  const auto host = kernels::make_cpu_ops(dtype, 2);
  EXPECT_EQ(train(*kernels::make_hip_ops(dtype, kernels::hip_devices_by_preference().front()), host.get()).hash, on_gpu.hash)
      << "AdamW on the CPU, with the state in its memory";
#if defined(HOLDFAST_HIP_SHIM)
  EXPECT_EQ(shim::bytes_on_device(), 0U) << "all memory was given back";
#endif
}

INSTANTIATE_TEST_SUITE_P(Dtypes, HipTraining,
                         ::testing::Combine(::testing::Values(DType::kFloat32, DType::kBFloat16, DType::kFloat16),
                                            ::testing::ValuesIn(kernels::testing::waves())),
                         [](const auto& chosen) { return kernels::testing::name_of(chosen); });

}  // namespace
}  // namespace holdfast::model

// A whole model trains on the hip op set. Its loss follows the cpu op set's loss. Its bits are the same in every run, in
// whatever order blocks, lanes and streams run, and with its pass queued op by op or as a whole.
#include <gtest/gtest.h>

#include <cstdlib>
#include <functional>
#include <utility>

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
  int64_t replays;  // of the pass as a whole
};

// Sets variables of the environment to 0 for as long as it lives: what the op set does otherwise it does not then.
class Without {
 public:
  explicit Without(std::vector<const char*> names) : names_(std::move(names)) {
    for (const char* name : names_) setenv(name, "0", 1);
  }
  ~Without() {
    for (const char* name : names_) unsetenv(name);
  }
  Without(const Without&) = delete;
  Without& operator=(const Without&) = delete;

 private:
  std::vector<const char*> names_;
};
constexpr const char *kGraphs = "HOLDFAST_GPU_GRAPHS", *kSideStream = "HOLDFAST_GPU_SIDE_STREAM";

std::unique_ptr<kernels::DeviceOps> gpu(DType dtype) {
  return kernels::make_hip_ops(dtype, kernels::hip_devices_by_preference().front());
}

// Trains on a few microbatches again and again, so that there is something to learn. `host`: where the state is offloaded to.
Trained train(kernels::DeviceOps& ops, kernels::DeviceOps* host = nullptr, double dropout = 0,
              const Gpt2Config& config = kConfig) {
  const ModelMemory memory{.masters = host == nullptr ? Masters::kInModel : Masters::kElsewhere};
  Gpt2 model(config, ops, kBatch, Recompute::kNone, memory);
  model.set_recipe({.dropout = dropout, .seed = 17});
  TrainState state(model, ops, TrainState::Owns::kAll, host);
  EXPECT_TRUE(state.initialize(SeededValues(config, 3)));
  Trained trained;
  for (int step = 0; step < kSteps; ++step) {
    const Microbatch microbatch = random_microbatch(kConfig, kBatch, static_cast<uint64_t>(step % 2));
    trained.losses.push_back(
        model.train_microbatch(microbatch.tokens, microbatch.targets, nullptr, TiedGradient::kTogether, {step, 0}));
    state.apply(kOptimizer, model.gradients());
  }
  trained.hash = state.hash();
  trained.replays = model.pass().replays();
  EXPECT_EQ(model.pass().refusal(), "");
  return trained;
}

class HipTraining : public ::testing::TestWithParam<std::tuple<DType, int>> {};

TEST_P(HipTraining, FollowsTheCpu) {
  if (const std::string reason = kernels::testing::reason_not_to_run(); !reason.empty()) GTEST_SKIP() << reason;
  const auto [dtype, wave] = GetParam();
  kernels::testing::use_wave(wave);
  kernels::testing::shuffle_with(1);
  const Trained on_gpu = train(*gpu(dtype));
  EXPECT_GE(on_gpu.replays, kSteps - 2)
      << "all but the first one or two, which bring scratch to its size: the pass, then the update";
  const Trained on_cpu = train(*kernels::make_cpu_ops(dtype, 1));
  EXPECT_LT(on_cpu.losses.back(), on_cpu.losses.front() - 0.5) << "it learns";
  const double allowed = dtype == DType::kFloat32 ? 1e-4 : 0.03;
  for (int step = 0; step < kSteps; ++step) EXPECT_NEAR(on_gpu.losses[step], on_cpu.losses[step], allowed) << "step " << step;
  kernels::testing::shuffle_with(2);
  {
    const Without plain({kGraphs, kSideStream});
    const Trained one_by_one = train(*gpu(dtype));
    EXPECT_EQ(one_by_one.hash, on_gpu.hash) << "op by op, in one stream";
    EXPECT_EQ(one_by_one.replays, 0);
  }
  const auto host = kernels::make_cpu_ops(dtype, 2);
  EXPECT_EQ(train(*gpu(dtype), host.get()).hash, on_gpu.hash) << "AdamW on the CPU, with the state in its memory";
#if defined(HOLDFAST_HIP_SHIM)
  EXPECT_EQ(shim::bytes_on_device(), 0U) << "all memory was given back";
#endif
}

TEST_P(HipTraining, FollowsTheCpuWithDropout) {
  if (const std::string reason = kernels::testing::reason_not_to_run(); !reason.empty()) GTEST_SKIP() << reason;
  const auto [dtype, wave] = GetParam();
  if (dtype == DType::kFloat16 || (dtype == DType::kBFloat16) != (wave == 32)) return;  // the kernels' tests have the others
  kernels::testing::use_wave(wave);
  kernels::testing::shuffle_with(3);
  const double allowed = dtype == DType::kFloat32 ? 1e-4 : 0.03;
  const auto follows = [&, dtype = dtype](const Gpt2Config& config) {
    Trained on_gpu = train(*gpu(dtype), nullptr, 0.2, config);
    const Trained on_cpu = train(*kernels::make_cpu_ops(dtype, 1), nullptr, 0.2, config);
    for (int step = 0; step < kSteps; ++step) EXPECT_NEAR(on_gpu.losses[step], on_cpu.losses[step], allowed) << "step " << step;
    EXPECT_GE(on_gpu.replays, kSteps - 2);
    return on_gpu;
  };
  const Trained tied = follows(kConfig);
  if (dtype == DType::kBFloat16) follows(untied(kConfig));
  const Without plain({kGraphs, kSideStream});
  EXPECT_EQ(train(*gpu(dtype), nullptr, 0.2).hash, tied.hash) << "a pass that comes again draws anew each time";
}

#if defined(HOLDFAST_HIP_SHIM)
// Two layers as small as they can be: the waits are those of large ones.
constexpr Gpt2Config kSmall = {.n_layer = 2, .n_embd = 16, .n_head = 1, .vocab_size = 31, .block_size = 8};

struct SmallModel {
  explicit SmallModel(Recompute recompute) : model(kSmall, *ops, 1, recompute) { model.initialize(3); }

  // The loss and the gradient of a microbatch, with another before it, so that what memory still holds is of no use.
  std::vector<float> train(uint64_t seed, const std::function<void()>& before_it = nullptr) {
    const Microbatch other = random_microbatch(kSmall, 1, 100), one = random_microbatch(kSmall, 1, 7);
    model.train_microbatch(other.tokens, other.targets);
    kernels::testing::shuffle_with(seed);
    if (before_it) before_it();
    std::vector<float> result(static_cast<size_t>(model.table().total));
    result.push_back(static_cast<float>(model.train_microbatch(one.tokens, one.targets)));
    ops->copy_to_host(result.data(), model.gradients(), (result.size() - 1) * sizeof(float));
    return result;
  }
  // Streams' waits for each other in a pass, which is recorded in the second pass.
  int64_t waits() {
    int64_t before = 0;
    train(1, [&] { before = shim::waits_so_far(); });
    return shim::waits_so_far() - before;
  }

  std::unique_ptr<kernels::DeviceOps> ops = gpu(DType::kFloat32);
  Gpt2 model;
};

class HipSideStream : public ::testing::TestWithParam<Recompute> {};

// Each wait of one stream for another, left out, is seen in some order of the streams: so none is there in vain, and each that
// were forgotten would be seen.
TEST_P(HipSideStream, EachWaitThatIsLeftOutShows) {
  const Without graphs({kGraphs});
  SmallModel small(GetParam());
  const int64_t waits = small.waits();
  EXPECT_GE(waits, 2 * 4 * kSmall.n_layer - 3) << "a fork for each product, and nearly as many joins";
  const auto right = small.train(1);
  for (int64_t wait = 1; wait <= waits; ++wait) {
    bool shows = false;
    for (uint64_t seed = 1; seed <= 60 && !shows; ++seed)
      shows = small.train(seed, [&] { shim::leave_out_wait(wait); }) != right;
    EXPECT_TRUE(shows) << "wait " << wait << " of " << waits;
  }
  EXPECT_EQ(small.train(3), right);
}

// The same where the pass is recorded: the runtime refuses the record, or some order of its parts shows that a wait is missing.
TEST_P(HipSideStream, EachWaitThatIsLeftOutOfAGraphShows) {
  const int64_t waits = SmallModel(GetParam()).waits();
  SmallModel sound(GetParam());
  const auto right = sound.train(1);
  for (uint64_t seed = 1; seed <= 20; ++seed) EXPECT_EQ(sound.train(seed), right) << "seed " << seed;
  int refused = 0;
  for (int64_t wait = 1; wait <= waits; ++wait) {
    SmallModel small(GetParam());
    bool shows = small.train(1, [&] { shim::leave_out_wait(wait); }) != right;
    refused += small.model.pass().refusal().empty() ? 0 : 1;
    for (uint64_t seed = 2; seed <= 60 && !shows && small.model.pass().refusal().empty(); ++seed)
      shows = small.train(seed) != right;
    EXPECT_TRUE(shows || !small.model.pass().refusal().empty()) << "wait " << wait << " of " << waits;
  }
  EXPECT_LT(refused, waits);
}

INSTANTIATE_TEST_SUITE_P(Recomputes, HipSideStream, ::testing::Values(Recompute::kNone, Recompute::kBlock),
                         [](const auto& chosen) { return chosen.param == Recompute::kNone ? "none" : "block"; });
#endif

INSTANTIATE_TEST_SUITE_P(Dtypes, HipTraining,
                         ::testing::Combine(::testing::Values(DType::kFloat32, DType::kBFloat16, DType::kFloat16),
                                            ::testing::ValuesIn(kernels::testing::waves())),
                         [](const auto& chosen) { return kernels::testing::name_of(chosen); });

}  // namespace
}  // namespace holdfast::model

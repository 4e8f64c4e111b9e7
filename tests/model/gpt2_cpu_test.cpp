// The model over the cpu ops, compared with the reference ops, and with itself at other numbers of threads.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "model/state/train_state.h"
#include "tests/model/small_model.h"

namespace holdfast::model {
namespace {

using kernels::DType;

// Sizes that are not multiples of a vector or a block; N = 2 * 33 rows.
constexpr Gpt2Config kOddConfig = {.n_layer = 2, .n_embd = 60, .n_head = 3, .vocab_size = 101, .block_size = 33};
// Sizes so large that every op has work for three threads, and products have a long inner dimension (N = 4 * 128).
constexpr Gpt2Config kWideConfig = {.n_layer = 2, .n_embd = 128, .n_head = 2, .vocab_size = 1000, .block_size = 128};

const OptimizerConfig kOptimizer = {.learning_rate = 3e-3,
                                    .min_lr = 3e-4,
                                    .warmup_steps = 2,
                                    .total_steps = 20,
                                    .weight_decay = 0.1,
                                    .beta1 = 0.9,
                                    .beta2 = 0.95,
                                    .epsilon = 1e-8,
                                    .grad_clip = 1.0};

double norm(std::span<const float> values) {
  double sum = 0;
  for (const float value : values) sum += static_cast<double>(value) * value;
  return std::sqrt(sum);
}

double distance(std::span<const float> one, std::span<const float> other) {
  double sum = 0;
  for (size_t i = 0; i < one.size(); ++i) sum += std::pow(static_cast<double>(one[i]) - other[i], 2);
  return std::sqrt(sum);
}

// Checks every tensor's gradient: its distance from that in `other` is at most `bound` times its own length, or bound / 100
// times the whole gradient's length. The second bound is for the keys' bias, whose gradient is zero but for rounding, because
// it moves all scores of a row equally.
void expect_gradients_near(const ParameterTable& table, const std::vector<float>& one, const std::vector<float>& other,
                           double bound) {
  for (const Parameter& parameter : table.entries) {
    const auto offset = static_cast<size_t>(parameter.offset), count = static_cast<size_t>(parameter.count);
    const auto a = std::span(one).subspan(offset, count), b = std::span(other).subspan(offset, count);
    EXPECT_LE(distance(a, b), std::max(bound * norm(b), bound / 100 * norm(other))) << parameter.name;
  }
}

struct Gradients {
  double loss;
  std::vector<float> values;
};

// The gradients, computed under a loss scale of 2^scale_log2, which is then divided out.
Gradients gradients_of(std::unique_ptr<kernels::DeviceOps> ops, const Gpt2Config& config, int64_t batch_size,
                       int scale_log2 = 0) {
  SmallModel model(std::move(ops), batch_size, config);
  perturbed_parameters(model.gpt2, *model.ops, 11);
  const Microbatch microbatch = random_microbatch(config, batch_size, 12);
  model.gpt2.set_loss_scale(scale_log2);
  const double loss = model.gpt2.train_microbatch(microbatch.tokens, microbatch.targets);
  Gradients gradients{loss, read_floats(*model.ops, model.gpt2.gradients(), model.gpt2.table().total)};
  for (float& value : gradients.values) value = std::ldexp(value, -scale_log2);
  return gradients;
}

TEST(Gpt2OverCpuOps, GradientsInFloat32DifferFromTheReferenceOnlyByRounding) {
  // Float32 sums of a few hundred terms at most: their error is about 1e-6 of their length in either order.
  const Gradients ref = gradients_of(kernels::make_ref_ops(DType::kFloat32), kOddConfig, 2);
  const Gradients cpu = gradients_of(kernels::make_cpu_ops(DType::kFloat32, 2), kOddConfig, 2);
  EXPECT_NEAR(cpu.loss / ref.loss, 1.0, 1e-6);
  expect_gradients_near(ParameterTable(kOddConfig), cpu.values, ref.values, 1e-5);
}

TEST(Gpt2OverCpuOps, GradientsInBFloat16AreAsExactAsTheReference) {
  // One rounding to bfloat16 is 2^-9 = 0.2%, and a gradient goes through some 20 of them: together 1% if they are independent.
  // The cpu ops round in other places than the reference. Their distance from float32 may be as large as the reference's.
  const ParameterTable table(kOddConfig);
  const Gradients exact = gradients_of(kernels::make_ref_ops(DType::kFloat32), kOddConfig, 2);
  const Gradients ref = gradients_of(kernels::make_ref_ops(DType::kBFloat16), kOddConfig, 2);
  const Gradients cpu = gradients_of(kernels::make_cpu_ops(DType::kBFloat16, 2), kOddConfig, 2);
  EXPECT_NEAR(cpu.loss / exact.loss, 1.0, 5e-3);
  expect_gradients_near(table, cpu.values, exact.values, 0.04);
  EXPECT_LE(distance(cpu.values, exact.values), 1.5 * distance(ref.values, exact.values));
}

TEST(Gpt2OverCpuOps, GradientsInFloat16AreAsExactAsTheReference) {
  // As above, with three more bits. Without the loss scale the smallest gradients would be subnormal.
  const ParameterTable table(kOddConfig);
  const Gradients exact = gradients_of(kernels::make_ref_ops(DType::kFloat32), kOddConfig, 2);
  const Gradients ref = gradients_of(kernels::make_ref_ops(DType::kFloat16), kOddConfig, 2, 10);
  const Gradients cpu = gradients_of(kernels::make_cpu_ops(DType::kFloat16, 2), kOddConfig, 2, 10);
  EXPECT_NEAR(cpu.loss / exact.loss, 1.0, 1e-3);
  expect_gradients_near(table, cpu.values, exact.values, 0.01);
  EXPECT_LE(distance(cpu.values, exact.values), 1.5 * distance(ref.values, exact.values));
}

TEST(Gpt2OverCpuOps, TrainingFollowsTheReference) {
  SmallModel ref(ref_float32(), 2, kOddConfig), cpu(kernels::make_cpu_ops(DType::kFloat32, 2), 2, kOddConfig);
  TrainState ref_state(ref.gpt2, *ref.ops), cpu_state(cpu.gpt2, *cpu.ops);
  ref.gpt2.initialize(1);
  cpu.gpt2.initialize(1);
  for (uint64_t step = 0; step < 20; ++step) {
    const Microbatch microbatch = random_microbatch(kOddConfig, 2, step % 3);
    const double expected = ref.gpt2.train_microbatch(microbatch.tokens, microbatch.targets);
    EXPECT_NEAR(cpu.gpt2.train_microbatch(microbatch.tokens, microbatch.targets) / expected, 1.0, 1e-5) << "step " << step;
    ref_state.apply(kOptimizer, ref.gpt2.gradients());
    cpu_state.apply(kOptimizer, cpu.gpt2.gradients());
  }
}

// The state's hash after a few steps of training.
std::string trained_hash(DType dtype, int threads) {
  SmallModel model(kernels::make_cpu_ops(dtype, threads), 4, kWideConfig);
  TrainState state(model.gpt2, *model.ops);
  model.gpt2.initialize(1);
  for (uint64_t step = 0; step < 3; ++step) {
    const Microbatch microbatch = random_microbatch(kWideConfig, 4, step);
    model.gpt2.train_microbatch(microbatch.tokens, microbatch.targets);
    state.apply(kOptimizer, model.gpt2.gradients());
  }
  return state.hash();
}

// As on a worker that has only the 16-bit copies of what others update.
TEST(Gpt2OverCpuOps, PassesIn16BitsReadNoMasterOfAMatrixButThePositions) {
  for (const DType dtype : {DType::kBFloat16, DType::kFloat16}) {
    SCOPED_TRACE(kernels::dtype_name(dtype));
    SmallModel model(kernels::make_cpu_ops(dtype, 2), 2, kOddConfig);
    std::vector<float> parameters = perturbed_parameters(model.gpt2, *model.ops, 11);
    const Microbatch microbatch = random_microbatch(kOddConfig, 2, 12);
    const std::vector<float> before = model.gradients(microbatch);
    for (const Parameter& parameter : model.gpt2.table().entries) {
      if (parameter.shape.size() < 2 || parameter.name == "wpe.weight") continue;
      std::fill_n(parameters.begin() + parameter.offset, parameter.count, std::numeric_limits<float>::quiet_NaN());
    }
    model.ops->copy_to_device(model.gpt2.parameters(), parameters.data(), parameters.size() * sizeof(float));
    EXPECT_EQ(model.gradients(microbatch), before);
  }
}

class Gpt2Threads : public ::testing::TestWithParam<DType> {};

TEST_P(Gpt2Threads, DoNotChangeABitOfGradientsOrState) {
  const Gradients one = gradients_of(kernels::make_cpu_ops(GetParam(), 1), kWideConfig, 4);
  const std::string hash = trained_hash(GetParam(), 1);
  for (const int threads : {2, 3}) {
    const Gradients several = gradients_of(kernels::make_cpu_ops(GetParam(), threads), kWideConfig, 4);
    EXPECT_EQ(several.loss, one.loss) << threads << " threads";
    EXPECT_EQ(several.values, one.values) << threads << " threads";
    EXPECT_EQ(trained_hash(GetParam(), threads), hash) << threads << " threads";
  }
}

INSTANTIATE_TEST_SUITE_P(Dtypes, Gpt2Threads, ::testing::Values(DType::kFloat32, DType::kBFloat16, DType::kFloat16),
                         [](const auto& tested) { return std::string(kernels::dtype_name(tested.param)); });

}  // namespace
}  // namespace holdfast::model

#include "bench/emulated/emulated_ops.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "model/gpt2.h"
#include "model/state/train_state.h"

namespace holdfast::bench {
namespace {

using std::chrono::duration;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr model::Gpt2Config kSmall{.n_layer = 2, .n_embd = 32, .n_head = 2, .vocab_size = 64, .block_size = 16};
constexpr duration<double> kMicrobatch = milliseconds(20);
constexpr size_t kTokens = 2 * 16;

std::unique_ptr<kernels::DeviceOps> device() {
  return make_emulated_ops(kernels::DType::kFloat32, kMicrobatch);
}

// Only lower bounds: a device may be late, never early, but for what rounding takes.
constexpr duration<double> kAllOfIt = kMicrobatch * 0.999;

template <typename Call>
duration<double> time_of(Call call) {
  const auto begin = steady_clock::now();
  call();
  return steady_clock::now() - begin;
}

TEST(EmulatedDevice, TakesItsTimeForAMicrobatchAndAThirdOfItForwardOnly) {
  const auto ops = device();
  model::Gpt2 gpt2(kSmall, *ops, 2);
  gpt2.initialize(1);
  const std::vector<int32_t> tokens(kTokens, 3);
  for (int pass = 0; pass < 3; ++pass) {
    EXPECT_GE(time_of([&] { gpt2.train_microbatch(tokens, tokens); }), kAllOfIt);
    EXPECT_GE(time_of([&] { gpt2.evaluate_microbatch(tokens, tokens); }), kAllOfIt / 3);
  }
}

TEST(EmulatedDevice, SharesTheTimeByOperationsWithTheHeadFirst) {
  const auto ops = device();
  std::vector<float> losses(4);
  const auto begin = steady_clock::now();
  ops->encoder_forward(nullptr, nullptr, nullptr, nullptr, 1, 4, 8);
  for (int product = 0; product < 50; ++product)
    ops->matmul_forward(nullptr, nullptr, nullptr, nullptr, nullptr, kernels::Epilogue::kNone, 4, 8, 8);
  ops->head_loss_backward(losses.data(), nullptr, nullptr, nullptr, nullptr, nullptr, 4, 8, 64, 1.0F);
  // Of 3 x 58 products' time: 50 forward, and the head, as large as 8 of them, forward and backward.
  EXPECT_GE(steady_clock::now() - begin, kAllOfIt * (50.0 + 3 * 8) / (3 * 58.0));
  for (int product = 0; product < 50; ++product)
    ops->matmul_backward(nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, 4, 8, 8);
  EXPECT_GE(steady_clock::now() - begin, kAllOfIt);
}

TEST(EmulatedDevice, BringsTheSameWholeNumbersOnEveryRankAndNoneIsZero) {
  const auto first = device(), second = device();
  std::vector<int32_t> sums(1000), others(1000, 7);
  first->fixed_accumulate(sums.data(), nullptr, 1000, 5, true);
  second->fixed_accumulate(others.data(), nullptr, 1000, 9, false);
  EXPECT_EQ(sums, others);
  EXPECT_EQ(std::ranges::count(sums, 0), 0);
  EXPECT_GT(first->abs_max(nullptr, 1000), 0);
}

TEST(EmulatedDevice, ReportsAFiniteLossAndNormAndLeavesParametersAsTheyAre) {
  const auto ops = device();
  model::Gpt2 gpt2(kSmall, *ops, 2);
  gpt2.initialize(1);
  model::TrainState state(gpt2, *ops);
  const std::vector<int32_t> tokens(kTokens, 3);
  EXPECT_NEAR(gpt2.train_microbatch(tokens, tokens), std::log(64.0), 1e-4);
  const std::vector<float> before(gpt2.parameters(), gpt2.parameters() + gpt2.table().total);
  EXPECT_TRUE(std::isfinite(state.apply({}, gpt2.gradients())));
  EXPECT_EQ(before, std::vector<float>(gpt2.parameters(), gpt2.parameters() + gpt2.table().total));
}

}  // namespace
}  // namespace holdfast::bench

// Activations that are computed again in the backward pass: the same bits, with less memory.
#include "model/recompute.h"

#include <gtest/gtest.h>

#include "tests/model/small_model.h"

namespace holdfast::model {
namespace {

using kernels::DType;

// Three layers, so that one is neither the first nor the last; 66 rows, which are not a multiple of a vector or a block.
constexpr Gpt2Config kConfig = {.n_layer = 3, .n_embd = 60, .n_head = 3, .vocab_size = 101, .block_size = 33};

struct Pass {
  double loss, evaluated;
  std::vector<float> gradients;
  bool operator==(const Pass&) const = default;
};

Pass passes(std::unique_ptr<kernels::DeviceOps> ops, Recompute recompute, double dropout) {
  SmallModel model(std::move(ops), 2, kConfig, recompute);
  model.gpt2.set_recipe({.dropout = dropout, .seed = 9});
  perturbed_parameters(model.gpt2, *model.ops, 11);
  const Microbatch microbatch = random_microbatch(kConfig, 2, 12), other = random_microbatch(kConfig, 2, 13);
  model.gpt2.train_microbatch(other.tokens, other.targets);  // its leftovers in memory must not matter
  Pass pass;
  pass.loss = model.gpt2.train_microbatch(microbatch.tokens, microbatch.targets);
  pass.gradients = read_floats(*model.ops, model.gpt2.gradients(), model.gpt2.table().total);
  pass.evaluated = model.gpt2.evaluate_microbatch(microbatch.tokens, microbatch.targets);
  return pass;
}

class RecomputeOver : public ::testing::TestWithParam<DType> {};

TEST_P(RecomputeOver, RefOpsChangesNoBit) {
  for (const double dropout : {0.0, 0.2}) {
    const Pass kept = passes(kernels::make_ref_ops(GetParam()), Recompute::kNone, dropout);
    EXPECT_EQ(passes(kernels::make_ref_ops(GetParam()), Recompute::kAttention, dropout), kept);
    EXPECT_EQ(passes(kernels::make_ref_ops(GetParam()), Recompute::kBlock, dropout), kept);
  }
}

TEST_P(RecomputeOver, CpuOpsChangesNoBit) {
  for (const double dropout : {0.0, 0.2}) {
    const Pass kept = passes(kernels::make_cpu_ops(GetParam(), 2), Recompute::kNone, dropout);
    EXPECT_EQ(passes(kernels::make_cpu_ops(GetParam(), 2), Recompute::kAttention, dropout), kept);
    EXPECT_EQ(passes(kernels::make_cpu_ops(GetParam(), 2), Recompute::kBlock, dropout), kept);
  }
}

INSTANTIATE_TEST_SUITE_P(Dtypes, RecomputeOver, ::testing::Values(DType::kFloat32, DType::kBFloat16, DType::kFloat16),
                         [](const auto& tested) { return std::string(kernels::dtype_name(tested.param)); });

TEST(Recompute, NeedsTheMemoryThatItsFormulaSays) {
  // These sizes are multiples of the arena's alignment, so the formula of model/activations.h is exact to the byte.
  constexpr Gpt2Config kAligned = {.n_layer = 4, .n_embd = 16, .n_head = 2, .vocab_size = 23, .block_size = 8};
  const auto ops = ref_float32();
  const auto activations = [&](Recompute recompute) { return Gpt2(kAligned, *ops, 2, recompute).memory_use().activations; };
  const size_t N = 16, C = 16, NH = 2, others = 3;  // layers without the first
  const size_t all = activations(Recompute::kNone);
  EXPECT_EQ(all - activations(Recompute::kAttention), others * (16 * N * C + 4 * N * NH));
  EXPECT_EQ(all - activations(Recompute::kBlock), others * (52 * N * C + 4 * N * NH));
}

TEST(Recompute, HasTheWordsOfTheSpec) {
  EXPECT_EQ(recompute_of("none"), Recompute::kNone);
  EXPECT_EQ(recompute_of("attention"), Recompute::kAttention);
  EXPECT_EQ(recompute_of("block"), Recompute::kBlock);
  EXPECT_EQ(recompute_of("all"), std::nullopt);
}

}  // namespace
}  // namespace holdfast::model

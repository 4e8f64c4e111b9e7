// A decoder on the hip op set: the losses of the training's forward pass, fed at once or token by token, and all memory given
// back. hip_device.h says on which device.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "model/decode/decoder.h"
#include "tests/kernels/hip_device.h"
#include "tests/model/decode/known_values.h"
#include "tests/model/small_model.h"

namespace holdfast::model {
namespace {

using kernels::DType;
using kernels::WeightForm;

// Heads of 16 channels, more tokens than a tile of the attention and two pages have, and a vocabulary that is a prime number.
constexpr Gpt2Config kHipDecoderConfig = {.n_layer = 2, .n_embd = 32, .n_head = 2, .vocab_size = 131, .block_size = 70};

class HipDecoder : public ::testing::TestWithParam<std::tuple<DType, int>> {
 protected:
  void SetUp() override {
    if (const std::string reason = kernels::testing::reason_not_to_run(); !reason.empty()) GTEST_SKIP() << reason;
    kernels::testing::use_wave(std::get<int>(GetParam()));
  }
  static std::unique_ptr<kernels::DeviceOps> gpu() {
    return kernels::make_hip_ops(std::get<DType>(GetParam()), kernels::hip_devices_by_preference().front());
  }
  // Losses of all tokens of the microbatch, which is fed `at_once` tokens a pass.
  static std::vector<float> losses(kernels::DeviceOps& ops, const std::vector<float>& values, const Microbatch& microbatch,
                                   WeightForm form, int64_t at_once) {
    const auto decoder = std::move(*Decoder::make(kHipDecoderConfig, ops, KnownValues(values, kHipDecoderConfig),
                                                  {.pages = 5, .rows = 70, .answers = 70}, form));
    std::vector<int32_t> pages(5);
    std::iota(pages.rbegin(), pages.rend(), 0);
    std::vector<float> all;
    for (int64_t first = 0; first < kHipDecoderConfig.block_size; first += at_once) {
      const auto count = static_cast<size_t>(std::min(at_once, kHipDecoderConfig.block_size - first));
      const Feed feed{std::span(microbatch.tokens).subspan(static_cast<size_t>(first), count), first, pages,
                      static_cast<int64_t>(count)};
      decoder->feed({&feed, 1});
      const std::vector<float> some = decoder->losses(std::span(microbatch.targets).subspan(static_cast<size_t>(first), count));
      all.insert(all.end(), some.begin(), some.end());
    }
    return all;
  }
};

TEST_P(HipDecoder, HasTheLossesOfTheTrainingsForwardPass) {
  const Microbatch microbatch = random_microbatch(kHipDecoderConfig, 1, 3);
  {
    SmallModel trained(gpu(), 1, kHipDecoderConfig);
    kernels::DeviceOps& ops = *trained.ops;
    const std::vector<float> values = perturbed_parameters(trained.gpt2, ops, 4);
    const std::vector<float> found = losses(ops, values, microbatch, WeightForm::kActivations, kHipDecoderConfig.block_size);
    DeviceBuffer on_device(ops, found.size() * sizeof(float));
    ops.copy_to_device(on_device.data<float>(), found.data(), found.size() * sizeof(float));
    const double loss =
        ops.sum(on_device.data<float>(), kHipDecoderConfig.block_size) / static_cast<double>(kHipDecoderConfig.block_size);
    const double expected = trained.gpt2.evaluate_microbatch(microbatch.tokens, microbatch.targets);
    const bool has_library = ops.info().numerics.find("blaslt") != std::string::npos;
    EXPECT_NEAR(loss, expected, has_library ? 0.02 : 0.0);
    for (const WeightForm form : {WeightForm::kActivations, WeightForm::kInt8, WeightForm::kInt4})
      EXPECT_EQ(losses(ops, values, microbatch, form, 1), losses(ops, values, microbatch, form, 33));
    EXPECT_EQ(losses(ops, values, microbatch, WeightForm::kActivations, 1), found);
  }
#if defined(HOLDFAST_HIP_SHIM)
  EXPECT_EQ(shim::bytes_on_device(), 0U) << "all memory was given back";
#endif
}

INSTANTIATE_TEST_SUITE_P(Dtypes, HipDecoder,
                         ::testing::Combine(::testing::Values(DType::kFloat32, DType::kBFloat16, DType::kFloat16),
                                            ::testing::ValuesIn(kernels::testing::waves())),
                         [](const auto& chosen) { return kernels::testing::name_of(chosen); });

}  // namespace
}  // namespace holdfast::model

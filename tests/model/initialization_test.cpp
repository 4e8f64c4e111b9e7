// Random numbers and initial parameters have the right distribution, and the same bits on every machine.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <numbers>
#include <span>

#include "model/portable_math.h"
#include "model/random.h"
#include "storage/checksum.h"
#include "tests/model/small_model.h"

namespace holdfast::model {
namespace {

TEST(Philox, GivesTheKnownAnswersOfItsAuthors) {
  // From Random123's kat_vectors: philox4x32, 10 rounds.
  EXPECT_EQ(philox4x32({0, 0, 0, 0}, {0, 0}), (std::array<uint32_t, 4>{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  const uint32_t ones = 0xFFFFFFFF;
  EXPECT_EQ(philox4x32({ones, ones, ones, ones}, {ones, ones}),
            (std::array<uint32_t, 4>{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
}

TEST(PortableMath, AgreesWithLibm) {
  for (int i = 1; i < 4000; ++i) {
    const double x = std::exp(0.05 * (i - 2000));  // 1e-43 to 1e43
    EXPECT_NEAR(portable_log(x), std::log(x), 1e-15 * std::max(1.0, std::abs(std::log(x)))) << x;
  }
  for (int i = 0; i <= 1000; ++i)
    EXPECT_NEAR(portable_cos_half_turns(i / 1000.0), std::cos(std::numbers::pi * i / 1000.0), 1e-15);
  EXPECT_DOUBLE_EQ(portable_cos_half_turns(0), 1.0);
  EXPECT_DOUBLE_EQ(portable_cos_half_turns(1), -1.0);
  for (const int64_t exponent : {0, 1, 2, 3, 10, 1000, 12345}) {
    EXPECT_NEAR(portable_power(0.999, exponent) / std::pow(0.999, exponent), 1.0, 1e-12) << exponent;
  }
}

TEST(PortableMath, TheQuantileInvertsTheDistributionFunction) {
  for (const double u : {1e-15, 1e-9, 1e-4, 0.01, 0.07, 0.08, 0.3, 0.5, 0.6, 0.92, 0.93, 0.999}) {
    const double back = 0.5 * std::erfc(-portable_normal_quantile(u) / std::numbers::sqrt2);
    EXPECT_NEAR(back / u, 1.0, 1e-12) << u;
  }
  EXPECT_EQ(portable_normal_quantile(0.5), 0.0);
}

struct Moments {
  double mean, deviation, kurtosis;
};

Moments moments(const std::vector<float>& values, const Parameter& parameter) {
  double sum = 0, squares = 0, fourth = 0;
  const double n = static_cast<double>(parameter.count);
  for (int64_t i = 0; i < parameter.count; ++i) sum += values[static_cast<size_t>(parameter.offset + i)];
  const double mean = sum / n;
  for (int64_t i = 0; i < parameter.count; ++i) {
    const double d = values[static_cast<size_t>(parameter.offset + i)] - mean;
    squares += d * d, fourth += d * d * d * d;
  }
  return {mean, std::sqrt(squares / n), n * fourth / (squares * squares)};
}

TEST(Initialization, DrawsTheDistributionOfGpt2) {
  const Gpt2Config config = {.n_layer = 8, .n_embd = 64, .n_head = 4, .vocab_size = 500, .block_size = 64};
  SmallModel model(ref_float32(), 1, config);
  model.gpt2.initialize(17);
  const std::vector<float> values = read_floats(*model.ops, model.gpt2.parameters(), model.gpt2.table().total);
  for (const Parameter& parameter : model.gpt2.table().entries) {
    const Moments found = moments(values, parameter);
    if (!parameter.decay) {
      EXPECT_EQ(found.mean, parameter.name.ends_with(".weight") ? 1.0 : 0.0) << parameter.name;
      EXPECT_EQ(found.deviation, 0.0) << parameter.name;
      continue;
    }
    // The bounds are five standard errors of the mean, the deviation and the kurtosis of n normal numbers.
    const double n = static_cast<double>(parameter.count);
    const double expected = parameter.name.ends_with("c_proj.weight") ? 0.02 / 4 : 0.02;  // sqrt(2 * 8 layers) = 4
    EXPECT_NEAR(found.mean, 0, 5 * expected / std::sqrt(n)) << parameter.name;
    EXPECT_NEAR(found.deviation, expected, 5 * expected / std::sqrt(2 * n)) << parameter.name;
    EXPECT_NEAR(found.kurtosis, 3, 5 * std::sqrt(24 / n)) << parameter.name;
  }
}

TEST(Initialization, IsAFunctionOfTheSeed) {
  SmallModel model(ref_float32());
  const auto values_of = [&model](uint64_t seed) {
    model.gpt2.initialize(seed);
    return read_floats(*model.ops, model.gpt2.parameters(), model.gpt2.table().total);
  };
  const std::vector<float> first = values_of(1);
  EXPECT_NE(values_of(2), first);
  EXPECT_NE(values_of(uint64_t{1} << 40 | 1), first);
  EXPECT_EQ(values_of(1), first);
  // The bits are the same on every machine, so the test can have their digest as a constant.
  EXPECT_EQ(storage::checksum_hex(std::as_bytes(std::span(first))), "77154cb23a55d07cc887b49631f9ebe7");
}

TEST(Initialization, AHeadOfItsOwnChangesNoOtherTensor) {
  SmallModel tied(ref_float32()), own(ref_float32(), 2, untied(kSmallConfig));
  tied.gpt2.initialize(1);
  own.gpt2.initialize(1);
  const int64_t shared = tied.gpt2.table().total;
  const auto values = read_floats(*own.ops, own.gpt2.parameters(), own.gpt2.table().total);
  EXPECT_EQ(read_floats(*tied.ops, tied.gpt2.parameters(), shared), std::vector(values.begin(), values.begin() + shared));
  const auto head = std::span(values).subspan(static_cast<size_t>(shared));
  EXPECT_FALSE(std::equal(head.begin(), head.end(), values.begin())) << "nor does it begin as the embedding";
  double squares = 0;
  for (const float x : head) squares += double{x} * double{x};
  EXPECT_NEAR(std::sqrt(squares / static_cast<double>(head.size())), 0.02, 0.002);
}

TEST(Initialization, AnElementDoesNotDependOnTheOthers) {
  Gpt2Config larger = kSmallConfig;
  larger.vocab_size *= 2;
  SmallModel small(ref_float32()), large(ref_float32(), 2, larger);
  small.gpt2.initialize(1);
  large.gpt2.initialize(1);
  const int64_t shared = small.gpt2.table()["wte.weight"].count;
  EXPECT_EQ(read_floats(*small.ops, small.gpt2.parameters(), shared), read_floats(*large.ops, large.gpt2.parameters(), shared));
}

}  // namespace
}  // namespace holdfast::model

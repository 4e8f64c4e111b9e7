// Dropout draws as many as it says, without a pattern along any of its places.
#include "kernels/dropout.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace holdfast::kernels {
namespace {

constexpr int64_t kRows = 512, kColumns = 768;

// 1 where an element is dropped.
std::vector<int> drawn(double probability, uint64_t seed, int64_t step, int64_t microbatch, uint32_t site) {
  const Dropout dropout = dropout_of(probability).at(site);
  std::vector<int> all;
  all.reserve(static_cast<size_t>(kRows * kColumns));
  for (int64_t row = 0; row < kRows; ++row) {
    const uint64_t key = dropout_row(dropout_pass(seed, step, microbatch), site, row);
    for (int64_t column = 0; column < kColumns; ++column) all.push_back(dropout_factor(dropout, key, column) == 0.0F ? 1 : 0);
  }
  return all;
}

// How many standard deviations the number of elements that both drop is from what chance has.
double deviations(const std::vector<int>& a, const std::vector<int>& b, double probability, int64_t shift = 0) {
  double both = 0;
  const auto count = static_cast<int64_t>(a.size()) - shift;
  for (int64_t i = 0; i < count; ++i) both += a[static_cast<size_t>(i)] * b[static_cast<size_t>(i + shift)];
  const double chance = probability * probability, n = static_cast<double>(count);
  return (both - n * chance) / std::sqrt(n * chance * (1 - chance));
}

TEST(Dropout, DropsAsManyAsItSaysAndScalesTheOthers) {
  for (const double probability : {0.001, 0.1, 0.2, 0.5, 0.9}) {
    double dropped = 0;
    for (const int one : drawn(probability, 1, 2, 3, mlp_output_site(0))) dropped += one;
    const double n = kRows * kColumns;
    EXPECT_NEAR(dropped, n * probability, 5 * std::sqrt(n * probability * (1 - probability))) << probability;
    EXPECT_EQ(dropout_of(probability).scale, static_cast<float>(1 / (1 - probability)));
  }
  EXPECT_FALSE(dropout_of(0).is_on());
  EXPECT_EQ(dropout_of(std::nextafter(1.0, 0.0)).threshold, UINT32_MAX);
}

TEST(Dropout, DrawsAnewAtEveryPlace) {
  constexpr double kProbability = 0.2;
  const auto base = drawn(kProbability, 1, 2, 3, attention_site(1));
  EXPECT_EQ(drawn(kProbability, 1, 2, 3, attention_site(1)), base) << "the same place";
  const std::vector<std::pair<const char*, std::vector<int>>> others = {
      {"seed", drawn(kProbability, 2, 2, 3, attention_site(1))},
      {"step", drawn(kProbability, 1, 3, 3, attention_site(1))},
      {"microbatch", drawn(kProbability, 1, 2, 4, attention_site(1))},
      {"step and microbatch the other way round", drawn(kProbability, 1, 3, 2, attention_site(1))},
      {"site", drawn(kProbability, 1, 2, 3, attention_output_site(1))},
      {"layer", drawn(kProbability, 1, 2, 3, attention_site(2))}};
  for (const auto& [name, other] : others) EXPECT_LT(std::abs(deviations(base, other, kProbability)), 4.5) << name;
  // Neighbours in a row, and in a column.
  for (const int64_t shift : {int64_t{1}, int64_t{2}, int64_t{8}, int64_t{64}, kColumns, 2 * kColumns, kColumns + 1})
    EXPECT_LT(std::abs(deviations(base, base, kProbability, shift)), 4.5) << shift;
}

TEST(Dropout, RowsOfHeadsBeyondFourBillionAreApart) {
  const uint64_t pass = dropout_pass(1, 2, 3);
  EXPECT_NE(dropout_row(pass, 0, int64_t{1} << 33), dropout_row(pass, 0, 0));
  EXPECT_NE(dropout_row(pass, 1, 0), dropout_row(pass, 0, int64_t{1} << 33));
}

// A job resumed by another release draws the same.
TEST(Dropout, NeverChanges) {
  const uint64_t pass = dropout_pass(1337, 1000, 7);
  const uint64_t key = dropout_row(pass, attention_site(5), 12345);
  EXPECT_EQ(pass, 0x74d3d04d12d788dfU);
  EXPECT_EQ(key, 0xe32880efdcd14927U);
  EXPECT_EQ(dropout_number(key, 0), 0x8cc3329cU);
  EXPECT_EQ(dropout_number(key, 4095), 0xb5749ad8U);
}

}  // namespace
}  // namespace holdfast::kernels

// The data order: in each pass every window comes once, and the order depends on its arguments alone, in every release.
#include "model/data/data_order.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <vector>

namespace holdfast::model {
namespace {

std::vector<int64_t> windows_of_pass(const DataOrder& order, int64_t pass) {
  std::vector<int64_t> windows;
  for (int64_t place = 0; place < order.windows; ++place) windows.push_back(order.window_at(pass, place));
  return windows;
}

bool is_permutation_of_all(std::vector<int64_t> windows) {
  std::ranges::sort(windows);
  for (size_t i = 0; i < windows.size(); ++i) {
    if (windows[i] != static_cast<int64_t>(i)) return false;
  }
  return true;
}

TEST(DataOrder, EveryPassVisitsEveryWindowOnceAtEverySize) {
  for (int64_t windows = 1; windows <= 300; ++windows) {
    for (const uint64_t seed : {0ULL, 1ULL, 0xFFFF'FFFF'FFFF'FFFFULL}) {
      const DataOrder order{seed, windows};
      for (int64_t pass = 0; pass < 3; ++pass) {
        ASSERT_TRUE(is_permutation_of_all(windows_of_pass(order, pass)))
            << windows << " windows, seed " << seed << ", pass " << pass;
      }
    }
  }
  for (const int64_t windows : {4096, 4097, 65535, 65536, 65537, 100'000}) {
    EXPECT_TRUE(is_permutation_of_all(windows_of_pass({42, windows}, 5))) << windows;
  }
}

TEST(DataOrder, PassesAndSeedsGiveDifferentOrders) {
  const DataOrder order{1, 1000}, other{2, 1000};
  EXPECT_NE(windows_of_pass(order, 0), windows_of_pass(order, 1));
  EXPECT_NE(windows_of_pass(order, 0), windows_of_pass(other, 0));
}

TEST(DataOrder, LooksLikeAShuffle) {
  // In a random permutation of n windows the number of windows that keep their place is Poisson(1). The mean distance between a
  // window's place before and after is n/3, with a standard deviation below 0.3 sqrt(n).
  const int64_t n = 10'000;
  const std::vector<int64_t> windows = windows_of_pass({7, n}, 0);
  int64_t kept = 0, distance = 0;
  for (int64_t place = 0; place < n; ++place) {
    kept += windows[place] == place ? 1 : 0;
    distance += std::abs(windows[place] - place);
  }
  EXPECT_LE(kept, 8);
  EXPECT_NEAR(static_cast<double>(distance) / n, n / 3.0, 5 * 0.3 * 100);
}

TEST(DataOrder, EvaluationWalksTheWindowsInOrderAndWraps) {
  std::vector<uint16_t> tokens(13);  // 3 windows of 4
  std::iota(tokens.begin(), tokens.end(), uint16_t{0});
  std::vector<int32_t> inputs(8), targets(8);
  fill_evaluation(tokens, {2, 4, 1}, 1, inputs, targets);  // windows 2 and 3 mod 3
  EXPECT_EQ(inputs, (std::vector<int32_t>{8, 9, 10, 11, 0, 1, 2, 3}));
  EXPECT_EQ(targets, (std::vector<int32_t>{9, 10, 11, 12, 1, 2, 3, 4}));
}

TEST(DataOrder, IsAFunctionOfItsArguments) {
  const std::vector<int64_t> first = windows_of_pass({11, 257}, 3);
  EXPECT_EQ(windows_of_pass({11, 257}, 3), first);
  // These constants were written down once: with other values a resumed job would train on different data.
  const DataOrder order{11, 257};
  std::vector<int64_t> head;
  for (int64_t place = 0; place < 5; ++place) head.push_back(order.window_at(3, place));
  EXPECT_EQ(head, (std::vector<int64_t>{78, 175, 103, 195, 91}));
}

TEST(MicrobatchDigest, DependsOnEverythingThatWasTrainedOn) {
  const std::vector<int32_t> inputs = {1, 2, 3}, targets = {2, 3, 4}, others = {2, 3, 5};
  const uint64_t digest = microbatch_digest(5, 6, inputs, targets);
  EXPECT_EQ(microbatch_digest(5, 6, inputs, targets), digest);
  EXPECT_NE(microbatch_digest(6, 6, inputs, targets), digest);
  EXPECT_NE(microbatch_digest(5, 7, inputs, targets), digest);
  EXPECT_NE(microbatch_digest(6, 5, inputs, targets), digest);
  EXPECT_NE(microbatch_digest(5, 6, inputs, others), digest);
  EXPECT_NE(microbatch_digest(5, 6, targets, inputs), digest);
}

}  // namespace
}  // namespace holdfast::model

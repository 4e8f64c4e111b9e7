// Pieces of work over threads: each piece is done once, also when a thread is slow, and the failure of the lowest piece counts.
#include "storage/parallel.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <latch>
#include <vector>

namespace holdfast::storage {
namespace {

TEST(Background, DoesEachPieceOnceWithEveryNumberOfThreads) {
  for (const int threads : {0, 1, 2, 5}) {
    std::vector<std::atomic<int>> done(100);
    const auto result = in_background(done.size(), threads, [&](size_t index, int thread) -> Result<void> {
      EXPECT_TRUE(thread >= 0 && thread <= threads);
      ++done[index];
      return {};
    });
    EXPECT_TRUE(result);
    EXPECT_TRUE(std::ranges::all_of(done, [](const auto& times) { return times == 1; })) << threads << " threads";
  }
}

// Two helpers have each begun a piece and get no processor. The caller does all other pieces. Its first one waits until the
// helpers have begun: on a busy machine they may be late, and a latch must not be counted below zero.
TEST(Background, TheCallerDoesThePiecesThatNoHelperTakes) {
  constexpr size_t kPieces = 9;
  std::latch helpers(2);
  std::latch others(kPieces - 2);
  const auto result = in_background(
      kPieces, 2,
      [&](size_t, int thread) -> Result<void> {
        if (thread == 0) {
          helpers.wait();
          others.count_down();
        } else {
          helpers.count_down();
          others.wait();
        }
        return {};
      },
      std::chrono::milliseconds(20));
  EXPECT_TRUE(result);
}

TEST(Background, TheFailureOfTheLowestPieceIsTheResultAndNoFurtherOneIsBegun) {
  std::atomic<int> begun = 0;
  const auto result = in_background(
      1000, 1,
      [&](size_t index, int) -> Result<void> {
        ++begun;
        if (index == 3) throw std::bad_alloc();
        return {};
      },
      std::chrono::minutes(4));  // else this thread would help, and begin another
  ASSERT_FALSE(result);
  EXPECT_EQ(begun, 4);
  EXPECT_NE(result.error().message.find("out of memory"), std::string::npos) << result.error().message;
}

}  // namespace
}  // namespace holdfast::storage

// How long a silent neighbour is waited for.
#include "worker/session/patience.h"

#include <gtest/gtest.h>

namespace holdfast::worker {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

Patience after_steps(milliseconds each, size_t count = Patience::kWindow) {
  Patience patience(seconds(30), seconds(3));
  for (size_t i = 0; i < count; ++i) patience.step_took(each);
  return patience;
}

TEST(Patience, IsTheCeilingUntilAFewStepsAreKnown) {
  EXPECT_EQ(after_steps(milliseconds(100), Patience::kStepsMin - 1).limit(), seconds(30));
  EXPECT_EQ(after_steps(milliseconds(100), Patience::kStepsMin).limit(), milliseconds(3400));
}

TEST(Patience, IsNeverShorterThanTheServicesLease) {
  Patience patience(seconds(30), seconds(10));
  EXPECT_EQ(patience.question(), seconds(10));
  for (size_t i = 0; i < Patience::kWindow; ++i) patience.step_took(milliseconds(100));
  EXPECT_EQ(patience.limit(), milliseconds(10400));
}

TEST(Patience, GrowsWithTheStepsButNotAboveTheCeiling) {
  EXPECT_EQ(after_steps(seconds(2)).limit(), seconds(11));
  EXPECT_EQ(after_steps(seconds(60)).limit(), seconds(30));
}

TEST(Patience, LooksAtTheLongestOfTheLastSteps) {
  Patience patience = after_steps(milliseconds(100));
  patience.step_took(seconds(4));
  EXPECT_EQ(patience.limit(), seconds(19));
  for (size_t i = 0; i < Patience::kWindow; ++i) patience.step_took(milliseconds(100));
  EXPECT_EQ(patience.limit(), milliseconds(3400));
}

TEST(Patience, AsksEarlyBecauseAQuestionCostsNothing) {
  EXPECT_EQ(after_steps(milliseconds(100), 1).question(), seconds(3));
  EXPECT_EQ(after_steps(milliseconds(100)).question(), milliseconds(500));
  EXPECT_EQ(after_steps(seconds(60)).question(), seconds(30));
}

TEST(Patience, IsLongerAfterItRanOut) {
  Patience patience = after_steps(milliseconds(250));
  patience.ran_out();
  EXPECT_EQ(patience.limit(), seconds(8));
  for (int i = 0; i < 40; ++i) patience.ran_out();
  EXPECT_EQ(patience.limit(), seconds(30));
  for (size_t i = 0; i < 6 * Patience::kWindow; ++i) patience.step_took(milliseconds(250));
  EXPECT_EQ(patience.limit(), seconds(4));
}

}  // namespace
}  // namespace holdfast::worker

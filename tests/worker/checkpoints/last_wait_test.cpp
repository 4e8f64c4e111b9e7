// The clocks of the last wait, with times as arguments.
#include "worker/checkpoints/last_wait.h"

#include <gtest/gtest.h>

namespace holdfast::worker {
namespace {

constexpr std::chrono::seconds kPatience{20};

LastWait::Time at(int seconds) {
  return LastWait::Time{} + std::chrono::seconds(seconds);
}

TEST(LastWait, BeginsWithTheFirstFailureAndAnewWithASuccess) {
  LastWait wait;
  EXPECT_FALSE(wait.is_over(30, kPatience, at(1000))) << "it is still being written";
  wait.write_ended(30, false, at(100));
  wait.write_ended(30, false, at(115));
  EXPECT_FALSE(wait.is_over(30, kPatience, at(120)));
  EXPECT_TRUE(wait.is_over(30, kPatience, at(121)));
  wait.write_ended(30, true, at(122));
  EXPECT_FALSE(wait.is_over(30, kPatience, at(142)));
  EXPECT_TRUE(wait.is_over(30, kPatience, at(143)));
}

TEST(LastWait, IsThatOfItsStepAlone) {
  LastWait wait;
  wait.write_ended(30, true, at(100));
  wait.write_ended(20, true, at(119));  // registered late
  EXPECT_TRUE(wait.is_over(30, kPatience, at(121)));
  EXPECT_FALSE(wait.is_over(20, kPatience, at(121)));
  EXPECT_FALSE(wait.is_over(25, kPatience, at(1000)));
  wait.generation_begins();
  EXPECT_FALSE(wait.is_over(30, kPatience, at(1000))) << "the job went back, and writes it again";
  wait.write_ended(30, false, at(1001));
  wait.write_begins_anew(30);
  EXPECT_FALSE(wait.is_over(30, kPatience, at(2000))) << "that was the write before it went back";
}

TEST(LastWait, StandsStillWhileFilesAreRemoved) {
  LastWait wait;
  wait.write_ended(30, true, at(100));
  wait.removal(true, at(110));
  EXPECT_FALSE(wait.is_over(30, kPatience, at(1000)));
  wait.removal(false, at(1000));
  EXPECT_FALSE(wait.is_over(30, kPatience, at(1020)));
  EXPECT_TRUE(wait.is_over(30, kPatience, at(1021)));
}

}  // namespace
}  // namespace holdfast::worker

// The failures that are worth repeating, and the pauses between tries.
#include "rendezvous/client/retry.h"

#include <gtest/gtest.h>

namespace holdfast::rendezvous {
namespace {

using std::chrono::milliseconds;

HttpFailure answered(int status, const std::string& code = "") {
  HttpFailure failure;
  failure.problem.status = status;
  failure.problem.code = code;
  return failure;
}

TEST(WorthRepeating, IsARequestToABusyOrBrokenService) {
  for (const int status : {408, 429, 500, 502, 503, 507}) EXPECT_TRUE(is_worth_repeating(answered(status))) << status;
}

TEST(WorthRepeating, IsNotARequestThatTheServiceRefused) {
  for (const int status : {400, 401, 403, 404, 409, 413, 422}) EXPECT_FALSE(is_worth_repeating(answered(status))) << status;
}

TEST(WorthRepeating, IsARequestThatGotNoAnswerOrWhoseBytesWereAlteredOnTheWay) {
  HttpFailure none;
  none.unreachable = true;
  EXPECT_TRUE(is_worth_repeating(none));
  EXPECT_TRUE(is_worth_repeating(answered(400, "altered_on_the_way")));
}

TEST(BackOff, PausesDoubleUpToTheirMaximumAndAreAtMostHalvedAtRandom) {
  BackOff back_off(milliseconds(100), milliseconds(250));
  for (const int whole : {100, 200, 250, 250}) {
    const auto pause = back_off.next();
    EXPECT_GE(pause, milliseconds(whole / 2));
    EXPECT_LE(pause, milliseconds(whole));
  }
}

}  // namespace
}  // namespace holdfast::rendezvous

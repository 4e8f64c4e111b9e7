// News of a GPU's health: of changes alone, and not more often than somebody wants to read them.
#include "worker/load/health_watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace holdfast::worker {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class Watch : public ::testing::Test {
 protected:
  // The kinds of the news at a time after the beginning. `words` has the last message.
  std::vector<std::string> at(seconds when, const DeviceHealth& health) {
    std::vector<std::string> kinds;
    for (const HealthNews& news : watch.news(health, HealthWatch::Clock::time_point(minutes(1000)) + when)) {
      kinds.push_back(news.kind);
      words = news.message;
    }
    return kinds;
  }
  static DeviceHealth errors(int64_t uncorrected, int64_t corrected) { return {{{"umc", {uncorrected, corrected}}}, {}, ""}; }
  static DeviceHealth hot(const std::string& why) { return {{}, {}, why}; }
  static DeviceHealth xid(int64_t number) { return {{}, {number}, ""}; }

  HealthWatch watch{"the GPU 0000:03:00.0 (W7900)"};
  std::string words;
};

TEST_F(Watch, ErrorsThatAreCountedAlreadyAreNewsOnlyIfTheyWereNotCorrected) {
  EXPECT_THAT(at(seconds(0), errors(0, 40)), IsEmpty());
  watch = HealthWatch("the GPU 0000:03:00.0 (W7900)");
  EXPECT_THAT(at(seconds(0), errors(1, 40)), ElementsAre("gpu_errors"));
  EXPECT_THAT(
      words,
      HasSubstr("the GPU 0000:03:00.0 (W7900): errors that could not be corrected, before this process began: 1 of umc"));
}

TEST_F(Watch, UncorrectedErrorsAreNewsThatSayWhatToDo) {
  at(seconds(0), errors(0, 0));
  EXPECT_THAT(at(seconds(5), errors(3, 0)), ElementsAre("gpu_errors"));
  EXPECT_THAT(
      words,
      HasSubstr("errors that could not be corrected: 3 of umc (since the driver was loaded: 3 of umc): drain this worker"));
  EXPECT_THAT(at(seconds(10), errors(3, 0)), IsEmpty()) << "nothing changed";
}

TEST_F(Watch, ManyErrorsAreFewNewsAndNoneIsLost) {
  at(seconds(0), errors(0, 0));
  int told = 0;
  for (int i = 1; i <= 240; ++i) told += static_cast<int>(at(seconds(5 * i), errors(i, 10 * i)).size());
  EXPECT_EQ(told, 4) << "in 20 minutes two of each kind, one at once and one after ten minutes";
  EXPECT_THAT(at(minutes(21), errors(240, 2400)), ElementsAre("gpu_errors", "gpu_corrected_errors"));
  EXPECT_THAT(words, HasSubstr("errors that were corrected: 1190 of umc")) << "those since the last news, which was of 1210";
}

TEST_F(Watch, CountersThatFellAreCountedFromThere) {
  at(seconds(0), errors(0, 100));
  EXPECT_THAT(at(seconds(5), errors(0, 0)), IsEmpty());
  EXPECT_THAT(at(seconds(10), errors(0, 2)), ElementsAre("gpu_corrected_errors"));
  EXPECT_THAT(words, HasSubstr("2 of umc"));
}

TEST_F(Watch, AReadingWithoutAPartForgetsNothing) {
  at(seconds(0), errors(0, 100));
  EXPECT_THAT(at(seconds(5), {}), IsEmpty());
  EXPECT_THAT(at(seconds(10), errors(0, 100)), IsEmpty());
}

TEST_F(Watch, AnXidIsNewsAndThoseOfTheHardwareSayWhatToDo) {
  at(seconds(0), {});
  EXPECT_THAT(at(seconds(5), xid(79)), ElementsAre("gpu_errors"));
  EXPECT_THAT(words, HasSubstr("Xid 79 of its driver: drain this worker"));
  EXPECT_THAT(at(seconds(10), xid(13)), IsEmpty());
  EXPECT_THAT(at(seconds(15), xid(13)), IsEmpty());
  EXPECT_THAT(at(minutes(11), {}), ElementsAre("gpu_errors"));
  EXPECT_THAT(words, HasSubstr("Xid 13 (2 times) of its driver: NVIDIA's catalogue of Xids says"));
}

TEST_F(Watch, HeatIsNewsWhenItBeginsAndWhenItStopped) {
  at(seconds(0), {});
  EXPECT_THAT(at(seconds(5), hot("junction at 112 degrees of 110")), ElementsAre("gpu_hot"));
  EXPECT_THAT(words, HasSubstr("(junction at 112 degrees of 110), so its steps are slower: look at its fans"));
  EXPECT_THAT(at(seconds(10), hot("junction at 113 degrees of 110")), IsEmpty());
  EXPECT_THAT(at(seconds(15), {}), IsEmpty());
  EXPECT_THAT(at(seconds(69), {}), IsEmpty());
  EXPECT_THAT(at(seconds(70), {}), ElementsAre("gpu_cool"));
}

TEST_F(Watch, HeatThatComesAndGoesIsToldSeldom) {
  int told = 0;
  for (int i = 0; i < 720; ++i)
    told += static_cast<int>(at(seconds(5 * i), i % 40 < 20 ? hot("the driver's limit") : DeviceHealth{}).size());
  EXPECT_LE(told, 12) << "in an hour in which it began 18 times";
  EXPECT_GE(told, 6);
}

}  // namespace
}  // namespace holdfast::worker

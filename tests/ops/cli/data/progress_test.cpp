// The line that says how far a push is.
#include "ops/cli/data/progress.h"

#include <gtest/gtest.h>

namespace holdfast::ops {
namespace {

TEST(PushProgressText, SaysHowFarHowFastAndHowLong) {
  EXPECT_EQ(progress_text(PushProgress{500'000'000, 1'000'000'000, 500'000'000}, 10),
            "pushing [##########----------] 50 %  500.0 MB of 1.0 GB, 50.0 MB/s, 10s left");
}

TEST(PushProgressText, TheSpeedIsOfWhatWasSent) {
  EXPECT_EQ(progress_text(PushProgress{900'000'000, 1'000'000'000, 100'000'000}, 10),
            "pushing [##################--] 90 %  900.0 MB of 1.0 GB, 10.0 MB/s, 10s left");
}

TEST(PushProgressText, WhereNothingHadToBeSentThereIsNoSpeed) {
  EXPECT_EQ(progress_text(PushProgress{500, 1000, 0}, 10), "pushing [##########----------] 50 %  500 B of 1.0 kB");
}

}  // namespace
}  // namespace holdfast::ops

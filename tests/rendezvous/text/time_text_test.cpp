// Times as text and back.
#include "rendezvous/text/time_text.h"

#include <gtest/gtest.h>

namespace holdfast::rendezvous {
namespace {

constexpr int64_t kMoment = 1'772'366'400'123;

TEST(TimeText, AMomentIsWrittenToTheMillisecondInUtc) {
  EXPECT_EQ(time_text(kMoment), "2026-03-01T12:00:00.123Z");
  EXPECT_EQ(time_text(0), "1970-01-01T00:00:00.000Z");
}

TEST(TimeText, AWrittenMomentIsReadAsItWas) {
  EXPECT_EQ(parse_time(time_text(kMoment)), kMoment);
  EXPECT_EQ(parse_time("1970-01-01T00:00:00Z"), 0);
}

TEST(TimeText, AFractionMayHaveAnyNumberOfDigits) {
  EXPECT_EQ(parse_time("2026-03-01T12:00:00Z"), kMoment - 123);
  EXPECT_EQ(parse_time("2026-03-01T12:00:00.1Z"), kMoment - 23);
  EXPECT_EQ(parse_time("2026-03-01T12:00:00.123987654Z"), kMoment);
  EXPECT_EQ(parse_time("2026-03-01T12:00:00."), kMoment - 123);
}

TEST(TimeText, AnyOtherTextIsNoMoment) {
  EXPECT_EQ(parse_time(""), std::nullopt);
  EXPECT_EQ(parse_time("yesterday"), std::nullopt);
  EXPECT_EQ(parse_time("2026-03-01"), std::nullopt);
}

}  // namespace
}  // namespace holdfast::rendezvous

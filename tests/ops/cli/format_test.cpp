// Numbers as people read them.
#include "ops/cli/terminal/format.h"

#include <gtest/gtest.h>

#include <cmath>

#include "ops/cli/terminal/quantities.h"

namespace holdfast::ops {
namespace {

TEST(Format, Durations) {
  EXPECT_EQ(duration_text(0.0), "0ms");
  EXPECT_EQ(duration_text(0.0499), "50ms");
  EXPECT_EQ(duration_text(0.44), "0.4s");
  EXPECT_EQ(duration_text(9.96), "10s");
  EXPECT_EQ(duration_text(59.6), "1m 00s");
  EXPECT_EQ(duration_text(134), "2m 14s");
  EXPECT_EQ(duration_text(3 * 3600 + 5 * 60), "3h 05m");
  EXPECT_EQ(duration_text(2 * 86400 + 4 * 3600), "2d 04h");
  for (const auto& none :
       {std::optional<double>(), std::optional<double>(NAN), std::optional<double>(INFINITY), std::optional<double>(-1)}) {
    EXPECT_EQ(duration_text(none), "-");
  }
}

TEST(Format, SizesAndCounts) {
  EXPECT_EQ(bytes_text(999), "999 B");
  EXPECT_EQ(bytes_text(120.6e6), "120.6 MB");
  EXPECT_EQ(bytes_text(2e15), "2000.0 TB");
  EXPECT_EQ(count_text(30142848), "30,142,848");
  EXPECT_EQ(count_text(-1000), "-1,000");
  EXPECT_EQ(count_text(999), "999");
  EXPECT_EQ(rate_text(10240.4), "10,240 tokens/s");
  EXPECT_EQ(loss_text(std::nullopt), "-");
  EXPECT_EQ(loss_text(std::numeric_limits<double>::infinity()), "not finite");
  EXPECT_EQ(loss_text(std::nan("")), "not finite");
}

TEST(Quantities, HaveTheDigitsThatAPlannerNeeds) {
  EXPECT_EQ(seconds_text(1.0132), "1.01 s");
  EXPECT_EQ(seconds_text(0.0342), "34.2 ms");
  EXPECT_EQ(seconds_text(0.00018), "180 us");
  EXPECT_EQ(seconds_text(0), "0 s");
  EXPECT_EQ(link_rate_text(119e6), "119 MB/s (0.952 Gbit/s)");
  EXPECT_EQ(percent_text(0.9), "90 %");
  EXPECT_EQ(percent_text(0.012), "1.2 %");
  EXPECT_EQ(percent_text(0.996), "99.6 %");
}

}  // namespace
}  // namespace holdfast::ops

#include "rendezvous/text/prometheus/duration_histogram.h"

#include <gmock/gmock.h>

namespace holdfast::rendezvous {
namespace {

using testing::HasSubstr;

TEST(DurationHistogram, CountsEachBoundAndAllThatIsShorter) {
  DurationHistogram waits;
  for (const double seconds : {0.01, 0.011, 0.3, 61.0}) waits.add(seconds);
  PrometheusText text;
  waits.add_to(text, "wait_seconds", "Waits.");
  for (const char* line :
       {"# TYPE wait_seconds histogram\n", "wait_seconds_bucket{le=\"0.01\"} 1\n", "wait_seconds_bucket{le=\"0.025\"} 2\n",
        "wait_seconds_bucket{le=\"0.25\"} 2\n", "wait_seconds_bucket{le=\"0.5\"} 3\n", "wait_seconds_bucket{le=\"60\"} 3\n",
        "wait_seconds_bucket{le=\"+Inf\"} 4\n", "wait_seconds_sum 61.321\n", "wait_seconds_count 4\n"}) {
    EXPECT_THAT(text.text(), HasSubstr(line));
  }
}

}  // namespace
}  // namespace holdfast::rendezvous

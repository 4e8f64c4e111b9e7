// How long records that only grow are kept. A reader that goes on from before a dropped record is told of the gap.
#pragma once

#include <cstdint>

namespace holdfast::rendezvous {

struct Retention {
  int64_t log_lines_per_job = 100'000;  // the newest; of a job that has not ended, too
  int64_t log_bytes_per_job = int64_t{64} << 20;
  int64_t log_bytes = int64_t{4} << 30;  // of all jobs; the logs of those that ended first go first
  int64_t days = 30;                     // after a job's end its log goes, and its events but for the newest
  int64_t events_per_ended_job = 200;
  int64_t events_per_job = 50'000;  // of every other job, and of none
};

// Of the metrics of each job's newest steps, one by one; older ones are points of curves (sql/metrics.h).
inline constexpr int64_t kStepRowsKept = 20'000;

}  // namespace holdfast::rendezvous

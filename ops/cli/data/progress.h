// How far `holdfast data prepare` or `holdfast data push` is.
#pragma once

#include <cstdint>
#include <string>

#include "model/data/prepare/prepare.h"
#include "ops/cli/terminal/progress_line.h"

namespace holdfast::ops {

struct PushProgress {
  int64_t bytes = 0, bytes_in_all = 0;  // that the service has, and that it is to have
  int64_t sent = 0;                     // of `bytes`, by this push
};

// "reading (1 of 2) [####----] 42 %  1.2 GB of 2.8 GB, 35.0 MB/s, 46s left". `elapsed_s`: since the pass began.
std::string progress_text(const model::PrepareProgress& progress, double elapsed_s);
// "pushing [####----] 42 %  1.2 GB of 2.8 GB, 35.0 MB/s, 46s left". The speed is of the bytes that were sent.
std::string progress_text(const PushProgress& progress, double elapsed_s);

// To stderr. Thread: one.
class DataProgress {
 public:
  void show(const model::PrepareProgress& progress);
  void show(const PushProgress& progress);

 private:
  ProgressLine line_;
  int pass_ = 0;
};

}  // namespace holdfast::ops

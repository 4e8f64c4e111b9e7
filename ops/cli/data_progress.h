// How far `holdfast data prepare` is: one line on a terminal, drawn again and again; elsewhere a line now and then.
#pragma once

#include <chrono>
#include <string>

#include "model/data/prepare/prepare.h"

namespace holdfast::ops {

// "reading [####----] 42 %  1.2 GB of 2.8 GB, 35.0 MB/s, 46s left". `elapsed_s`: since the pass began. No wider than `width`
// columns.
std::string progress_text(const model::PrepareProgress& progress, double elapsed_s, size_t width);

// To stderr.
class DataProgress {
 public:
  ~DataProgress();  // the line goes away
  void show(const model::PrepareProgress& progress);

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point began_ = Clock::now(), said_ = Clock::now();
  int pass_ = 0;
  bool drawn_ = false;
};

}  // namespace holdfast::ops

// How far `holdfast data prepare` or `holdfast data push` is: one line on a terminal, drawn again and again; elsewhere a line
// now and then.
#pragma once

#include <chrono>
#include <functional>
#include <string>

#include "model/data/prepare/prepare.h"

namespace holdfast::ops {

struct PushProgress {
  int64_t bytes = 0, bytes_in_all = 0;  // that the service has, and that it is to have
  int64_t sent = 0;                     // of `bytes`, by this push
};

// "reading (1 of 2) [####----] 42 %  1.2 GB of 2.8 GB, 35.0 MB/s, 46s left". `elapsed_s`: since the pass began. No wider than
// `width` columns.
std::string progress_text(const model::PrepareProgress& progress, double elapsed_s, size_t width);
// "pushing [####----] 42 %  1.2 GB of 2.8 GB, 35.0 MB/s, 46s left". The speed is of the bytes that were sent.
std::string progress_text(const PushProgress& progress, double elapsed_s, size_t width);

// To stderr. Thread: one.
class DataProgress {
 public:
  ~DataProgress();  // the line goes away
  void show(const model::PrepareProgress& progress);
  void show(const PushProgress& progress);

 private:
  using Clock = std::chrono::steady_clock;
  void draw(const std::function<std::string(double elapsed_s, size_t width)>& text);

  Clock::time_point began_ = Clock::now(), said_ = Clock::now();
  int pass_ = 0;
  bool drawn_ = false;
};

}  // namespace holdfast::ops

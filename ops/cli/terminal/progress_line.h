// How far a command is: one line on a terminal, drawn again and again; elsewhere a line now and then. To stderr.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>

namespace holdfast::ops {

// "[####----] 42 %"
std::string bar_text(int64_t done, int64_t in_all);

// Thread: one.
class ProgressLine {
 public:
  ProgressLine() = default;
  ~ProgressLine();  // the line goes away
  ProgressLine(const ProgressLine&) = delete;

  void begin_again() { began_ = Clock::now(); }
  // `text`: given the seconds since it began; what is wider than the terminal is cut off.
  void draw(const std::function<std::string(double elapsed_s)>& text);

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point began_ = Clock::now(), said_ = Clock::now();
  bool drawn_ = false;
};

}  // namespace holdfast::ops

// The screen that shows a watched job's progress with the events above it: drawn again in place on a terminal, line by line
// elsewhere.
//
// On a terminal the progress is what progress_lines() gives, events scroll away above it, and a change of the terminal's width
// is taken up. Elsewhere a line is printed when there is something new, but not more often than a reader of a log wants.
// May be used by several threads.
#pragma once

#include <chrono>
#include <cstdio>
#include <mutex>

#include "ops/cli/command/api.h"

namespace holdfast::ops {

class ProgressScreen {
 public:
  explicit ProgressScreen(std::FILE* stream);  // stdout or stderr
  ~ProgressScreen();                           // the last drawing stays; later output begins below it
  ProgressScreen(const ProgressScreen&) = delete;
  void event(const std::string& line);
  void progress(const Json& job);
  void resized();
  // Takes the progress away and prints `line` in its place, as the last word.
  void leave(const std::string& line);

 private:
  std::string fit_for_stream(const std::string& line) const;
  void clear();
  void draw();
  std::FILE* const stream_;
  const int fd_;
  const bool redraws_, colour_;
  std::mutex mutex_;
  Json job_;
  std::vector<std::string> drawn_;  // the lines on the terminal now, below the events
  std::string printed_;             // the last line, where there is no terminal
  std::chrono::steady_clock::time_point printed_at_;
};

}  // namespace holdfast::ops

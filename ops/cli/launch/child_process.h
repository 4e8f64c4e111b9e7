// A program that is started and looked after: it gets a text on its standard input, and what it says is read line by line.
//
// Promises: the program is in a process group of its own, so that Ctrl-C in the terminal is for this program alone; it is ended
// by the kernel when the thread that started it ends, and by the destructor. Nothing here blocks but run_to_end(). Thread: one
// for each object.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <optional>
#include <string>
#include <vector>

namespace holdfast::ops {

class ChildProcess {
 public:
  // `input` is written to its standard input, which then ends: at most 64 KiB, which a pipe takes at once. A program that
  // cannot be started ends with status 127 and says why. `environment`: NAME=VALUE, in place of what this program has of these
  // names.
  ChildProcess(const std::vector<std::string>& command, const std::string& input,
               const std::vector<std::string>& environment = {});
  ~ChildProcess();
  ChildProcess(const ChildProcess&) = delete;

  // Whole lines of stdout and stderr since the last call; after the end the rest, too.
  std::vector<std::string> take_lines();
  // The exit status when it has ended; 128 + N of one that signal N ended.
  std::optional<int> status();
  void terminate();  // SIGTERM

 private:
  pid_t pid_ = -1;
  int output_ = -1;
  std::optional<int> status_;
  std::string unread_;  // the beginning of a line
};

struct Ended {
  int status;
  std::string text;  // stdout and stderr
};
// Runs a program to its end; after `patience` it is killed and its status is 124.
Ended run_to_end(const std::vector<std::string>& command, std::chrono::milliseconds patience, const std::string& input = "",
                 const std::vector<std::string>& environment = {});

}  // namespace holdfast::ops

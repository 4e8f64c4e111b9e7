// The stderr of a training process, which goes through its supervisor: it is passed on line by line, and the last lines are
// kept.
//
// The process never waits for the pipe: if the supervisor does not read, the lines that do not fit are dropped, and only
// those.
// Promises: everything that was written before the process died is passed on. The last kLastLinesMax lines are kept, each
// shortened and without the colours of terminals.
// Thread: the supervisor's only one.
#pragma once

#include <deque>
#include <string>
#include <vector>

namespace holdfast::worker {

// Environment of the training process: set where the supervisor's stderr is a terminal, so that its lines have colours.
inline constexpr const char* kTerminalVariable = "HOLDFAST_INTERNAL_TERMINAL";

class StderrTail {
 public:
  StderrTail();  // if no pipe can be made, stderr stays as it is and nothing is kept
  ~StderrTail();
  StderrTail(const StderrTail&) = delete;
  StderrTail& operator=(const StderrTail&) = delete;

  void hand_over() const;             // in the child, between fork and exec: its stderr goes here
  void born();                        // in the parent, once the child has its end
  int ears() const { return ears_; }  // poll this descriptor; -1: there is none
  void pass_on();                     // passes on everything that has come
  std::vector<std::string> lines();   // call it when the process has ended: passes the rest on, and returns the last lines

 private:
  void take(const std::string& line);

  int ears_ = -1, mouth_ = -1;
  std::string begun_;  // a line that has not ended
  std::deque<std::string> last_;
};

}  // namespace holdfast::worker

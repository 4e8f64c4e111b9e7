// What a training process writes to stderr, on its way through its supervisor: passed on line by line, and the last lines kept.
//
// A pipe that the process never waits for: what does not fit, because its supervisor does not read, is lost, and only that.
// Promises: what was written before the process died is passed on; of it the last kLastLinesMax lines are there to be told,
// each shortened and without the colours of terminals. Thread: the supervisor's only one.
#pragma once

#include <deque>
#include <string>
#include <vector>

namespace holdfast::worker {

// Environment of the training process: set where the supervisor's stderr is a terminal, so that its lines have colours.
inline constexpr const char* kTerminalVariable = "HOLDFAST_INTERNAL_TERMINAL";

class LastWords {
 public:
  LastWords();  // where no pipe is to be had, stderr stays as it is and nothing is kept
  ~LastWords();
  LastWords(const LastWords&) = delete;
  LastWords& operator=(const LastWords&) = delete;

  void hand_over() const;             // in the child, between fork and exec: its stderr goes here
  void born();                        // in the parent, once the child has its end
  int ears() const { return ears_; }  // to be waited for; -1: there is none
  void pass_on();                     // what has come
  std::vector<std::string> lines();   // when the process has ended: passes the rest on, and tells the last lines

 private:
  void take(const std::string& line);

  int ears_ = -1, mouth_ = -1;
  std::string begun_;  // a line that has not ended
  std::deque<std::string> last_;
};

}  // namespace holdfast::worker

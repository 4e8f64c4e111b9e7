// Why a training process ends that cannot go on: said by itself, heard by its supervisor, told to the service.
//
// A pipe: the supervisor has one end, the process inherits the other one. Promises: neither waits for the other; what was said
// is one line of at most kLastWordsMost bytes. Who is killed says nothing.
#pragma once

#include <cstddef>
#include <string>

namespace holdfast::worker {

inline constexpr size_t kLastWordsMost = 500;
// Environment of the training process: the file descriptor.
inline constexpr const char* kLastWordsVariable = "HOLDFAST_INTERNAL_LAST_WORDS";

// The supervisor's side, for one life.
class LastWords {
 public:
  LastWords();  // without a pipe, where none is to be had, nothing is heard
  ~LastWords();
  LastWords(const LastWords&) = delete;
  LastWords& operator=(const LastWords&) = delete;

  void hand_over() const;  // in the child, between fork and exec
  void born();             // in the parent, once the child has its end
  std::string heard();     // when it has ended: "" or ": what it said"

 private:
  int ears_ = -1, mouth_ = -1;
};

// In the training process; nothing where there is no supervisor.
void say_last_words(const std::string& reason);

}  // namespace holdfast::worker

// A check of what must be true wherever a wrong answer would be silent: in every build, also in release builds.
//
// Use it for the program's own promises, never for input from outside: other ranks, files and the service are judged with
// values and faults. When a check fails: one line on stderr, then abort(). The supervisor reports that line with the end of
// the process, and starts the worker again, which takes its state from other members or from a checkpoint.
// Thread: any.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <string>

namespace holdfast::worker {

[[noreturn]] inline void broken_invariant(const std::string& sentence) {
  std::fprintf(stderr, "broken invariant: %s. This is a bug: the worker ends before anything wrong is written down\n",
               sentence.c_str());
  std::fflush(stderr);
  std::abort();
}

// `sentence()` says what is broken, with the step and the values; it is called only when `holds` is false.
template <typename Sentence>
void must_hold(bool holds, Sentence sentence) {
  if (!holds) broken_invariant(sentence());
}

}  // namespace holdfast::worker

// Post-conditions of every decision, checked in every build: a wrong answer here would be silent, and durable.
//
// These are the program's own promises, never rules for input from outside: messages of workers and people are judged with
// replies. When a check fails: one line on stderr, then abort(), before anything of the turn is committed. The service that is
// started next goes on from its last commit.
// Thread: any.
#pragma once

#include <cstdint>
#include <string>

#include "rendezvous/membership/decide.h"

namespace holdfast::rendezvous {

[[noreturn]] void broken_invariant(const std::string& sentence);

// `sentence()` says what is broken, with the job and the values; it is called only when `holds` is false.
template <typename Sentence>
void must_hold(bool holds, const Sentence& sentence) {
  if (!holds) broken_invariant(sentence());
}

// The parts of the state before a decision that its outcome is compared with.
struct Beforehand {
  explicit Beforehand(const JobMembership& job);

  JobState state;
  int64_t generation;
  std::string secret;
  size_t members;
  int64_t committed_step, lineage, restarts;
  bool has_own_steps;  // false: every step so far is of another job, from whose checkpoint this one went on
};

// Ends the process unless
//   - generations grow one by one, at most one forms, and one that formed before has kept its members;
//   - the new generation has between min_nodes and max_nodes members, all of them participants, each with its own rank, and
//     begins from a state that there is, at the committed step;
//   - steps are committed once and in their order, and the committed step goes down only to where a new generation begins, with
//     the steps in between voided and a new lineage;
//   - a job that has ended stays as it ended, and keeps no worker; a generation is alive only in a running job.
void require_sound(const Beforehand& before, const Decision& decision);

}  // namespace holdfast::rendezvous

// A train thread's part in a state that is divided among the ranks (worker/state/divided): a process has the state's bits,
// which stand for all parameters, and says of each chunk whether it has its moments. The placement is the real one.
#pragma once

#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "rendezvous/placement/placement.h"
#include "tests/sim/training/train_thread.h"

namespace holdfast::sim {

class TrainThread::Divided {
 public:
  explicit Divided(TrainThread& thread) : thread_(thread) {}

  bool is_on() const { return thread_.spec_.shard != "none"; }
  void hold_nothing();  // neither parts nor a whole state
  void hold_all();
  void divide(const std::vector<Piece>& offers);
  // Each rank has the sums of what it owns alone: `then` once all have told the squares of theirs. At once in other states.
  void when_all_have_sums(std::function<void()> then);
  // After a step that all have applied, `pieces` being what they have: some of what owners lack comes to them.
  void fill_some(const std::vector<Piece>& pieces, std::function<void()> then);
  // The part of a checkpoint that this rank writes.
  Writer writer() const;
  // A checkpoint begins only where all can write their parts: `then` says whether; or, in the second, once they can. At once
  // in other states.
  void when_it_is_known_who_can_write(std::function<void(bool all_can)> then);
  void when_all_can_write(std::function<void()> then);
  // Before a yield ends: ranks that go give what only they have to those that stay.
  void hand_over(std::function<void()> then);
  void require_owners(const std::vector<Piece>& pieces) const;
  const std::vector<bool>& sound() const { return sound_; }

  int64_t applied_step = -1;  // the step that was applied, and nothing was computed since
  int64_t summed_step = -1;   // the step whose mean gradient is here, of what this rank owns

 private:
  // Chunks that some of their owners lack.
  std::vector<size_t> lacked(const std::vector<Piece>& pieces) const;
  void begin();
  void wait_for_word(int64_t until_ms);
  void hand_over_from(const std::vector<Piece>& pieces);
  void take_owned();
  void handed_over();

  TrainThread& thread_;
  rendezvous::Placement target_;
  std::vector<bool> sound_, owned_;  // by chunk: its moments are here, and right; they are to be
  std::set<std::string> stays_;      // the incarnations of members that a yield leaves
  std::function<void()> then_;
};

}  // namespace holdfast::sim

// Divided states in the train thread (worker/state/divided): a process has the state's bits, and of each chunk the bits to
// which its part and its compute copy belong. Decisions on who has what, who is to own what and who can compute are the real
// ones (judge_holdings.h, owners.h), and so is the placement.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "tests/sim/training/divided_memory.h"
#include "tests/sim/training/train_thread.h"

namespace holdfast::sim {

class TrainThread::Divided {
 public:
  explicit Divided(TrainThread& thread) : thread_(thread) {}

  bool is_on() const { return thread_.spec_.shard != "none"; }
  void hold_nothing();  // neither parts nor a whole state
  void divide(const std::vector<Piece>& offers);
  // By rank, whether it can compute; the state that this rank computes with: its own, unless it lacks compute copies.
  std::vector<bool> computing() const;
  ModelState computed_with() const;
  // A step was applied to the state, or left out, which had these bits before.
  void apply(uint64_t before);
  void leave_out(uint64_t before);
  // After a step: ranks take compute copies of what others own. At once in other states.
  void share(std::function<void()> then);
  // Each rank has the sums of what it owns alone: `then` once all have told the squares of theirs. At once in other states.
  void when_all_have_sums(std::function<void()> then);
  // After a step that all have applied: some of what ranks lack comes to them.
  void fill_some(std::function<void()> then);
  // The part of a checkpoint that this rank writes.
  Writer writer() const;
  // A checkpoint begins only where all can write their parts: `then` says whether; or, in the second, once they can. At once
  // in other states.
  void when_it_is_known_who_can_write(std::function<void(bool all_can)> then);
  void when_all_can_write(std::function<void()> then);
  // Before a yield ends: ranks that go give what only they have to those that stay.
  void hand_over(std::function<void()> then);
  void require_owners(const std::vector<Piece>& pieces) const;
  // The pieces of all ranks together have the state's hash.
  void require_hash(const std::vector<Piece>& pieces) const;
  std::shared_ptr<const DividedMemory> memory() const { return std::make_shared<const DividedMemory>(memory_); }
  worker::Held held(bool counts) const;

  int64_t applied_step = -1;  // the step that was applied, and nothing was computed since
  int64_t summed_step = -1;   // the step whose mean gradient is here, of what this rank owns

 private:
  struct Item {  // as of worker/state/divided/filling.h
    size_t chunk;
    bool is_copy;
  };
  size_t me() const { return static_cast<size_t>(thread_.join_.rank); }
  bool copies_are_apart() const { return kinds_of(thread_.spec_).copies_at.value_or(0) > 0; }
  int64_t patience_ms() const { return static_cast<int64_t>(thread_.spec_.collective_timeout_s * 1000); }
  worker::Holdings judged(const std::vector<Piece>& pieces) const;
  void place_from_source();
  void place(const std::vector<Piece>& pieces);
  void lose();
  // Pieces that `ownership` says are to come now; `shown` by rank.
  void take(const worker::Ownership& ownership, const worker::Holdings& holdings, const std::vector<Piece>& shown);
  void begin(const worker::Ownership& ownership);
  std::vector<Item> window() const;
  void fill(const std::vector<Item>& window, const std::vector<Piece>& shown, const std::function<void()>& then);
  void wait_for_word(int64_t until_ms);
  void hand_over_from(const std::vector<Piece>& pieces);
  void handed_over();

  TrainThread& thread_;
  DividedMemory memory_;
  worker::Ownership ownership_;
  uint64_t before_ = 0;              // the state's bits before the step that was applied last
  std::vector<int64_t> owners_min_;  // by chunk: the ranks that had it as the generation began, as far as they are wanted
  std::set<std::string> stays_;      // the incarnations of members that a yield leaves
  std::function<void()> then_;
};

}  // namespace holdfast::sim

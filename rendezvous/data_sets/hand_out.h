// The hand-out of one data set: which of its chunks the service gives to which worker.
//
// Promises: a chunk that no other live worker can give is given to a worker that asks for it; while that worker lives and is
// not late with it, nobody else is given it. So each chunk leaves the service about once, and workers get the rest from each
// other. Nobody starves: a chunk is given again when the worker that took it is gone or late and nobody else can give it, and
// a worker that has got nothing from others for kLateMs, though they have chunks that it lacks, is given those, too (others
// may be out of its reach).
// Everything is forgotten with the service; workers say it again every second.
// Thread: the owner's. Pure: `now_ms` is a steady time.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "rendezvous/protocol/data_set.h"

namespace holdfast::rendezvous {

class HandOut {
 public:
  static constexpr int64_t kSilentMs = 5'000;  // a worker that says nothing for so long is forgotten
  static constexpr int64_t kLateMs = 10'000;   // a chunk that was taken is to be there by then
  static constexpr size_t kWorkersMax = 4096;

  explicit HandOut(int64_t chunks) : givers_(static_cast<size_t>(chunks)), given_(static_cast<size_t>(chunks)) {}

  int64_t chunks() const { return static_cast<int64_t>(givers_.size()); }
  // A worker's word, and the chunks that it is to take from the service. `have` has chunks() bits and says the same as
  // request.have; request.first has numbers below chunks().
  std::vector<int64_t> say(const HoldersRequest& request, const std::vector<bool>& have, int64_t now_ms);
  std::vector<Holder> others_than(const std::string& worker) const;
  bool is_full_for(const std::string& worker) const { return workers_.size() >= kWorkersMax && !workers_.contains(worker); }

  void forget(const std::string& worker);
  void forget_silent(int64_t now_ms);
  // Forgets the workers whose incarnation is over, by `is_over(worker, incarnation)`.
  template <typename IsOver>
  void forget_if(const IsOver& is_over);
  bool nobody_left() const { return workers_.empty(); }

 private:
  struct Worker {
    int64_t number = 0;  // never given again
    std::string incarnation, address, pin;
    std::string bits;  // `have` as it was said
    std::vector<bool> have;
    int64_t said_ms = 0;
    int64_t fed_ms = 0;  // when it last got a chunk from another worker, or could not have got one
  };
  struct Given {
    int64_t to = 0;  // Worker::number; 0: to nobody yet
    int64_t at_ms = 0;
  };

  Worker& told(const HoldersRequest& request, const std::vector<bool>& have, int64_t now_ms);
  void count(const Worker& worker, int change);
  void note_feeding(Worker& worker, const std::vector<bool>& had, int64_t now_ms) const;
  bool on_its_way(size_t chunk, int64_t now_ms) const;
  std::vector<int64_t> choose(const HoldersRequest& request, const Worker& worker, int64_t now_ms) const;

  std::map<std::string, Worker> workers_;
  std::map<int64_t, const Worker*> by_number_;
  int64_t last_number_ = 0;
  std::vector<int32_t> givers_;  // of each chunk: how many live workers with an address have it
  std::vector<Given> given_;     // of each chunk: to whom the service last gave it
};

template <typename IsOver>
void HandOut::forget_if(const IsOver& is_over) {
  std::vector<std::string> gone;
  for (const auto& [name, worker] : workers_) {
    if (is_over(name, worker.incarnation)) gone.push_back(name);
  }
  for (const std::string& name : gone) forget(name);
}

}  // namespace holdfast::rendezvous

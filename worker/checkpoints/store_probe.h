// Whether the ranks of a divided state write to one store: a folder of which each has another one of the same name makes no
// checkpoint.
//
// Rank 0 puts a mark into the store when a generation begins, which only this generation can have, and again where it is gone:
// another folder may lie there by then. The others look for it, beside training. A rank that does not find it says so once, and
// looks on: when it finds the mark later it says that, too.
// Promises: a store that is away, slow or full is not called another one; a mark of an older generation is not taken for this
// one's, and goes away. Thread: one of its own.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "storage/object_store.h"

namespace holdfast::worker {

class StoreProbe {
 public:
  struct Generation {
    int64_t number = 0;
    int rank = 0;
    std::string first;              // rank 0, for people
    std::string first_incarnation;  // no other has it
    std::string node;               // of this rank
  };
  // For people: a kind of event, and its text.
  using Tell = std::function<void(const std::string& kind, const std::string& text)>;

  // How long a mark may take to come from one machine to another before it is missed.
  static constexpr std::chrono::milliseconds kPatience{10'000};

  // The store outlives this object.
  StoreProbe(storage::ObjectStore& store, Tell tell, std::chrono::milliseconds patience = kPatience);
  ~StoreProbe();  // takes this rank's marks away
  StoreProbe(const StoreProbe&) = delete;
  StoreProbe& operator=(const StoreProbe&) = delete;

  void begin(Generation generation);
  void end();  // nobody writes, so nothing is to be looked at
  // This rank's store is not that of rank 0, as far as is known now.
  bool is_elsewhere() const { return elsewhere_; }
  // It was found not to be since this was asked last.
  bool was_elsewhere() { return found_elsewhere_.exchange(false); }
  // Whether this rank's store is that of rank 0 is known, and is_elsewhere() and was_elsewhere() say it already.
  bool is_settled() const { return settled_; }

 private:
  enum class Look { kThere, kMissing, kUnknown };
  void work();
  void keep_mark(const Generation& generation);
  void tell_of_failure(const std::string& what);  // once a generation, when it has been so for longer than `patience`
  void look_for_mark(const Generation& generation);
  Look look(const Generation& generation);
  Look look_again_as_a_writer(const Generation& generation);
  void remove_older(int64_t generation);
  void remove_own();
  // True: the generation is over.
  bool wait(std::chrono::milliseconds time);

  storage::ObjectStore& store_;
  const Tell tell_;
  const std::chrono::milliseconds patience_;
  std::atomic<bool> elsewhere_ = false, found_elsewhere_ = false, settled_ = true;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<Generation> next_;
  bool over_ = false, stopping_ = false;
  std::string own_;      // the key of this rank's mark, where there is one
  std::string problem_;  // of the last look that could not be had
  std::chrono::steady_clock::time_point begun_;
  bool told_of_failure_ = false;
  std::thread thread_;
};

}  // namespace holdfast::worker

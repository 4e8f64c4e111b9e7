// Pulls the checkpoints that the service which leads keeps in its own folder into the folder of one that stands by, so that it
// has them when it leads; and, while none is lacking, its data sets (data_set_pull.h).
//
// Promises: a checkpoint is here whole or not at all, and every byte was checked against its checksum; the newest checkpoints
// of jobs that have not ended come first, at the given rate on average; one that is broken off, also by kill -9, goes on where
// it stopped. Checkpoints that retention has removed there are removed here, never one at or above the newest that the
// catalogue has. Training and the leader wait for nothing of it. Every job gets its folder, without which it could not write
// here. Refuses: to pull what is not the service's to keep: checkpoints in shared folders and in S3. Thread: one of its own;
// seen() from any.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "rendezvous/standby/data_set_pull.h"
#include "rendezvous/store/reading.h"
#include "storage/object_store.h"

namespace holdfast::rendezvous {

struct PullOptions {
  std::string data_dir, token;  // where they go; the leader's token, of a role that may list data sets
  double bytes_per_s = 0;       // 0: as fast as it goes
  int64_t look_ms = 2000;       // between two looks at the catalogue
};

struct PullSeen {
  int64_t wanted = 0, there = 0;  // checkpoints in the catalogue that services keep, and how many of them are here
  int64_t pulled_bytes = 0;       // since this object was made
  std::string problem;            // of the last look; "": none
};

class CheckpointPull {
 public:
  using Open = std::function<std::unique_ptr<StoreReading>()>;

  CheckpointPull(PullOptions options, Open open);
  ~CheckpointPull() { end(); }
  CheckpointPull(const CheckpointPull&) = delete;

  PullSeen seen() const;
  void end();  // breaks off the copy under way; no other comes. For one thread

 private:
  struct Wanted {
    std::string job;
    int64_t number = 0, step = 0;
    std::string state_hash;
    bool ended = false, newest = false;
  };
  enum class Went { kOn, kDone };

  void work();
  void look();
  void take_catalogue();
  void make_folders(const std::vector<JobRow>& jobs);
  std::vector<Wanted> missing();
  Went pull_one();
  bool is_here(const Wanted& wanted);
  void remove_old(const std::string& job);
  void note(const std::string& problem);
  void pause();

  const PullOptions options_;
  const Open open_;
  std::unique_ptr<StoreReading> reading_;
  std::optional<ReadMoment> moment_;                             // of the next two
  std::vector<Wanted> wanted_;                                   // the most wanted first
  std::chrono::steady_clock::time_point catalogue_until_;        // loading it takes time: before this it is good enough
  std::map<std::string, std::set<int64_t>> catalogue_;           // by job: all steps, those too that nobody can read
  std::map<std::pair<std::string, int64_t>, std::string> here_;  // by job and step: the state's hash
  std::set<std::string> folders_;                                // of these jobs are here
  std::unique_ptr<DataSetPull> data_sets_;
  bool leader_is_away_ = false;  // as the last pull found it
  bool tidy_ = false;            // parts of objects that a broken copy left are gone
  std::atomic<bool> stop_ = false;
  mutable std::mutex mutex_;  // guards the next field
  PullSeen seen_;
  std::condition_variable stopped_;
  std::thread thread_;  // last: it uses the rest
};

}  // namespace holdfast::rendezvous

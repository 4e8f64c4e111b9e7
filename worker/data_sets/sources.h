// The places that a worker gets the chunks of one data set from: the service, and other workers that have some. The service
// says which chunks it gives to this worker (HoldersReply::take); a worker is asked what it has.
//
// Promises: no worker is asked whose certificate the service cannot tell (Holder::pin): chunks travel encrypted between
// workers, whatever their job says of its ring. A chunk is got from one source at a time, and from another, too, when it has
// not come within kLate, so that a frozen worker delays nobody. A source that fails is left alone for a while, the longer the
// more often. Thread: the caller's, one at a time; time comes in as an argument.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "rendezvous/protocol/data_set.h"
#include "worker/data_sets/chunk_choice.h"

namespace holdfast::worker {

class ChunkSources {
 public:
  using Time = std::chrono::steady_clock::time_point;
  static constexpr std::chrono::milliseconds kLate{3000}, kLookEvery{100}, kQuietFirst{100}, kQuietLongest{5000};
  static constexpr int kAtOnce = 2;  // chunks that are on their way from one source

  ChunkSources(int64_t chunks, uint64_t salt);

  // Something to do with a source. `chunk` -1: ask it what it has.
  struct Task {
    std::string address;  // "": the service
    std::string worker;
    int64_t chunk = -1;
    std::string pin = {};  // of the worker's certificate
  };
  std::optional<Task> next(const std::vector<bool>& have, Time now);
  void got(const Task& task);                                    // the chunk, whole and right
  void failed(const Task& task, Time now);                       // or it was damaged
  void learned(const Task& task, const std::vector<bool>& has);  // the answer to the question

  // The service's answer: who else there is, and what it gives.
  void take(const rendezvous::HoldersReply& reply);
  void need_first(const std::vector<int64_t>& chunks);  // before all that was needed first so far
  std::vector<int64_t> needed_first(const std::vector<bool>& have) const;

  int64_t given_by_service(const std::vector<bool>& have) const;  // and not come yet
  bool has_workers() const { return sources_.size() > 1; }
  // Chunks that came, by where from.
  int64_t from_service() const { return from_service_; }
  int64_t from_workers() const { return from_workers_; }
  size_t workers_that_gave() const { return gave_.size(); }

 private:
  struct Source {
    std::string address, worker, pin;
    std::vector<bool> has;
    int busy = 0, failures = 0;
    Time quiet_until{}, look_at{};
  };
  Source* find(const std::string& address);
  WantedChunks wanted(const std::vector<bool>& have, Time now) const;
  std::optional<Task> next_chunk(const std::vector<bool>& have, Time now);
  void ended(const Task& task);

  const int64_t chunks_;
  const uint64_t salt_;
  std::vector<Source> sources_;  // the service first
  std::vector<int64_t> first_;
  struct Way {
    int count = 0;
    Time begun{};
  };
  std::vector<Way> on_their_way_;  // by chunk
  int64_t from_service_ = 0, from_workers_ = 0;
  std::vector<std::string> gave_;
};

}  // namespace holdfast::worker

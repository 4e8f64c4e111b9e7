// Brings one data set to this machine and, once chunks are here, has other workers find them.
//
// Every second the service is told what is here, and says who else has what (ChunkSources). Of the processes of a machine that
// use one cache, one fetches, and another when that one ends.
// Promises: bytes are compared with their chunk's name before they count; damaged ones are got again, and said in an event. It
// goes on while the service is away, from workers, and while workers are. `failure` is only what no source can mend: a full
// disk, a data set that is not at the service and at no worker, or whose tokens are not as it says.
// Thread: any for the callers; its own fetch.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "worker/data_sets/cached_set.h"
#include "worker/data_sets/chunk_server.h"
#include "worker/data_sets/sources.h"
#include "worker/link/service_link.h"

namespace holdfast::worker {

class Fetcher {
 public:
  using OnEvent = std::function<void(const std::string& kind, const std::string& message)>;

  // `name`: for people. `server` gives chunks to others; null: nobody does. `on_event`: from threads of its own.
  Fetcher(ServiceLink& link, std::string name, std::shared_ptr<CachedSet> set, ChunkServer* server, OnEvent on_event);
  ~Fetcher();
  Fetcher(const Fetcher&) = delete;

  const CachedSet& set() const { return *set_; }
  // Chunks to get before others, in this order.
  void need(const std::vector<int64_t>& chunks);
  // Until chunks [first, last) are here, or *stop is true, or nothing will bring them.
  enum class Waited : uint8_t { kHere, kStopped, kFailed };
  Waited wait_for(int64_t first, int64_t last, const std::atomic<bool>* stop);
  bool is_complete() const;  // all of it is here, and its tokens are those that it says
  std::string failure() const;

 private:
  void announce();  // a thread
  void fetch();     // threads
  bool announce_once(rendezvous::HttpClient& client);
  void carry_out(const ChunkSources::Task& task, rendezvous::HttpClient& client);
  void take_chunk(const ChunkSources::Task& task, const std::string& bytes);
  void complete();
  void fail(const std::string& why);
  bool may_fetch();

  ServiceLink& link_;
  const std::string name_, digest_;
  const std::shared_ptr<CachedSet> set_;
  ChunkServer* const server_;
  const OnEvent on_event_;
  const std::chrono::steady_clock::time_point begun_ = std::chrono::steady_clock::now();

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  ChunkSources sources_;
  std::string key_, failure_;
  bool completing_ = false, completed_ = false, announce_now_ = false;
  OpenFile fetching_;  // locked: this process fetches
  std::atomic<int> damaged_{0};
  std::atomic<bool> stopping_{false};
  std::vector<std::thread> threads_;
};

}  // namespace holdfast::worker

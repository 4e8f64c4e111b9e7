// Sends data chunks to the service over a few connections, while the next ones are read.
//
// Promises: at most kConnections + kWaitingMax chunks are in memory. The first failure ends all, and is thrown by the next call
// of send() or finish(). Thread: one calls; the connections have threads of their own.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "ops/cli/data/patient_client.h"

namespace holdfast::ops {

class ChunkSender {
 public:
  static constexpr int kConnections = 4;
  static constexpr size_t kWaitingMax = 4;

  explicit ChunkSender(const Options& options);
  ~ChunkSender();  // chunks that wait are dropped
  ChunkSender(const ChunkSender&) = delete;

  void send(std::string name, std::string bytes);  // waits while there is much to do
  void finish();                                   // returns when the service has all of it
  int64_t sent_bytes() const { return sent_bytes_; }

 private:
  struct Chunk {
    std::string name, bytes;
  };
  void work(const Options& options);
  void throw_failure() const;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Chunk> waiting_;
  int busy_ = 0;
  bool ending_ = false;
  std::optional<RefusedPush> failure_;
  std::atomic<bool> stop_ = false;
  std::atomic<int64_t> sent_bytes_ = 0;
  std::vector<std::thread> threads_;  // last: they use the others
};

}  // namespace holdfast::ops

// A job's events as they happen, gathered by a thread of its own over one stream that is opened again when it breaks.
//
// Each event is given once, in the service's order; where its database was restored from an older copy this is told as an event
// of its own, and ids go on from there. Thread: one reader.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "ops/cli/command/api.h"

namespace holdfast::ops {

class EventFeed {
 public:
  // Throws a Failure when the service does not answer at all.
  EventFeed(const Options& options, const std::string& job_id, bool from_the_beginning);
  ~EventFeed();
  EventFeed(const EventFeed&) = delete;

  std::vector<Json> take();                                         // the events since the last call
  void wait_until(std::chrono::steady_clock::time_point deadline);  // returns early when an event comes
  // After the job's end: ends the stream, and asks for what it had not brought yet.
  std::vector<Json> take_rest();

 private:
  void follow();
  void stop();
  bool stopping();

  Api api_;         // of the reader
  Api stream_api_;  // of the thread
  const std::string job_id_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Json> events_;
  int64_t last_id_ = 0;
  bool stopping_ = false;
  std::thread thread_;
};

// Events with an id above `after`, from the service's list.
std::vector<Json> events_after(Api& api, const std::string& job_id, int64_t after);

}  // namespace holdfast::ops

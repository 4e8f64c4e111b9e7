// A log sink that sends a job's lines to the service; another sink writes them to stderr.
//
// Installed before there are threads. Lines wait until an outbox is connected and a job is set, and then go to that job's
// log: the newest kLinesWaiting at most, with a line that says how many older ones were dropped. Disconnect the outbox before
// it is destroyed.
#pragma once

#include <spdlog/sinks/base_sink.h>

#include <deque>
#include <mutex>
#include <string>

#include "worker/link/outbox.h"

namespace holdfast::worker {

class LogShipping : public spdlog::sinks::base_sink<std::mutex> {
 public:
  static constexpr size_t kLinesWaiting = 200;

  void connect(Outbox* outbox) {  // null: disconnects
    const std::lock_guard lock(mutex_);
    outbox_ = outbox;
  }
  // Lines go to this job's log from now on; "" for none.
  void set_job(const std::string& job);

 protected:
  void sink_it_(const spdlog::details::log_msg& message) override;
  void flush_() override {}

 private:
  Outbox* outbox_ = nullptr;
  std::string job_;
  std::deque<rendezvous::LogLine> waiting_;
  int64_t gone_ = 0;  // waiting lines that were dropped
};

}  // namespace holdfast::worker

// A log sink that sends a job's lines to the service, beside the one that writes to stderr.
//
// Installed before there are threads. Lines wait until an outbox is connected and a job is set, and go to that job's log then:
// at most kLinesWaiting, the newest, with word of how many there were before them. The outbox is disconnected before it ends.
#pragma once

#include <spdlog/sinks/base_sink.h>

#include <deque>
#include <mutex>
#include <string>

#include "worker/outbox.h"

namespace holdfast::worker {

class LogShipping : public spdlog::sinks::base_sink<std::mutex> {
 public:
  static constexpr size_t kLinesWaiting = 200;

  void connect(Outbox* outbox) {  // null: disconnects
    const std::lock_guard lock(mutex_);
    outbox_ = outbox;
  }
  // Lines of this job from now on; "" for none.
  void set_job(const std::string& job);

 protected:
  void sink_it_(const spdlog::details::log_msg& message) override;
  void flush_() override {}

 private:
  Outbox* outbox_ = nullptr;
  std::string job_;
  std::deque<rendezvous::LogLine> waiting_;
  int64_t gone_ = 0;  // of those that waited
};

}  // namespace holdfast::worker

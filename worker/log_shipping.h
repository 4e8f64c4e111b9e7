// A log sink that sends a job's lines to the service, beside the one that writes to stderr.
//
// Installed before there are threads; lines go nowhere until an outbox is connected and a job is set. The outbox is
// disconnected before it ends.
#pragma once

#include <spdlog/sinks/base_sink.h>

#include <mutex>
#include <string>

#include "worker/outbox.h"

namespace holdfast::worker {

class LogShipping : public spdlog::sinks::base_sink<std::mutex> {
 public:
  void connect(Outbox* outbox) {  // null: disconnects
    const std::lock_guard lock(mutex_);
    outbox_ = outbox;
  }
  // Lines of this job from now on; "" for none.
  void set_job(const std::string& job) {
    const std::lock_guard lock(mutex_);
    job_ = job;
  }

 protected:
  void sink_it_(const spdlog::details::log_msg& message) override;
  void flush_() override {}

 private:
  Outbox* outbox_ = nullptr;
  std::string job_;
};

}  // namespace holdfast::worker

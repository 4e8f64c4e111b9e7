#include "worker/link/log_shipping.h"

#include <utility>

namespace holdfast::worker {

void LogShipping::sink_it_(const spdlog::details::log_msg& message) {
  const auto since_epoch = message.time.time_since_epoch();
  const auto level = spdlog::level::to_string_view(message.level);
  rendezvous::LogLine line{std::chrono::duration_cast<std::chrono::milliseconds>(since_epoch).count(),
                           std::string(level.data(), level.size()),
                           std::string(message.payload.data(), message.payload.size())};
  if (outbox_ != nullptr && !job_.empty()) return outbox_->log(job_, std::move(line));
  waiting_.push_back(std::move(line));
  if (waiting_.size() <= kLinesWaiting) return;
  waiting_.pop_front();
  ++gone_;
}

void LogShipping::set_job(const std::string& job) {
  const std::lock_guard lock(mutex_);
  job_ = job;
  if (outbox_ == nullptr || job_.empty() || waiting_.empty()) return;
  if (gone_ > 0) {
    outbox_->log(job_, {waiting_.front().time_ms, "warning",
                        std::to_string(std::exchange(gone_, 0)) + " lines that came before this job were dropped here"});
  }
  for (rendezvous::LogLine& line : std::exchange(waiting_, {})) outbox_->log(job_, std::move(line));
}

}  // namespace holdfast::worker

#include "worker/log_shipping.h"

namespace holdfast::worker {

void LogShipping::sink_it_(const spdlog::details::log_msg& message) {
  if (job_.empty() || outbox_ == nullptr) return;
  const auto since_epoch = message.time.time_since_epoch();
  const auto level = spdlog::level::to_string_view(message.level);
  outbox_->log(job_, {std::chrono::duration_cast<std::chrono::milliseconds>(since_epoch).count(),
                      std::string(level.data(), level.size()), std::string(message.payload.data(), message.payload.size())});
}

}  // namespace holdfast::worker

// The settings of a CompletionDesk, for those who only hand them on.
#pragma once

#include <chrono>

namespace holdfast::rendezvous {

struct DeskSettings {
  std::chrono::milliseconds patience = std::chrono::minutes(10);  // for all texts of a request
  bool logs_requests = false;                                     // as they came, with their prompts
};

}  // namespace holdfast::rendezvous

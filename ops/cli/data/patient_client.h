// A connection to the service for a command that takes long: requests that can be repeated without harm are.
//
// Promises: a failure that may pass by itself (no connection, 408, 429, 5xx, bytes altered on the way) is tried again with
// growing pauses, until the service has been away for kPatience. Other failures are thrown at once, a full service (507), too.
// Thread: one object per thread; `stop` may be set by others, and ends a wait soon.
#pragma once

#include <atomic>
#include <chrono>
#include <string>

#include "ops/cli/command/api.h"

namespace holdfast::ops {

class PatientClient {
 public:
  static constexpr auto kPatience = std::chrono::minutes(5);

  // `stop` outlives this.
  PatientClient(const Options& options, const std::atomic<bool>& stop);

  // Throws the Failure. `body` is the same for each try.
  std::string request(const std::string& method, const std::string& path, const std::string& body,
                      const std::string& content_type = "application/json");
  Json ask(const std::string& method, const std::string& path, const Json& body);

 private:
  rendezvous::HttpClient client_;
  const std::atomic<bool>& stop_;
};

// The problem's code of a Failure is lost; this one keeps it for a caller that has a remedy.
struct RefusedPush {
  std::string code;
  Failure failure;
};

}  // namespace holdfast::ops

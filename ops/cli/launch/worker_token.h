// The token that launched workers show to the service: one of role worker, so that no host learns more than a worker may do.
#pragma once

#include <string>
#include <utility>

#include "ops/cli/command/api.h"

namespace holdfast::ops {

struct WorkerToken {
  std::string secret;
  std::string id;  // of one that was made for this launch, to be revoked; "": it was there
};

// HOLDFAST_WORKER_TOKEN; else one that is made now, named `name`, where this program's token may make tokens; else the
// worker.token of the service's folder on this machine. Throws Failure{kNotAllowed} where there is none of these.
WorkerToken worker_token(const Options& options, Api& api, const std::string& name);
// Has a token that was made let nobody in any more. Errors are dropped: it expires.
void revoke(const Options& options, const WorkerToken& token);

// The token of a launch that has not begun: revoked with this object, unless workers were given it. Thread: one.
class UnusedToken {
 public:
  // `options` outlive the object.
  UnusedToken(const Options& options, WorkerToken token) : options_(&options), token_(std::move(token)) {}
  UnusedToken(UnusedToken&& other) noexcept : options_(other.options_), token_(std::exchange(other.token_, {})) {}
  UnusedToken& operator=(UnusedToken&&) = delete;
  ~UnusedToken() { revoke(*options_, token_); }

  const std::string& secret() const { return token_.secret; }
  // Workers have it: it is the caller's to revoke.
  WorkerToken give() { return std::exchange(token_, {}); }

 private:
  const Options* options_;
  WorkerToken token_;
};

}  // namespace holdfast::ops

// The token that launched workers show to the service: one of role worker, so that no host learns more than a worker may do.
#pragma once

#include <string>

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
void revoke(Api& api, const WorkerToken& token);

}  // namespace holdfast::ops

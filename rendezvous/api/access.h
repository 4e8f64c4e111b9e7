// Where a request goes, and whether its sender may go there, and so often.
//
// Promises: a request is routed and its token looked up once, from its head. A token that is revoked while the body is still
// arriving is good for that one request.
// Thread: any.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "rendezvous/access/token_book.h"
#include "rendezvous/api/routes.h"
#include "rendezvous/coordinator/clock.h"
#include "rendezvous/http/server.h"
#include "rendezvous/http/token_buckets.h"

namespace holdfast::rendezvous {

struct Target {
  const Route* route = nullptr;
  std::vector<std::string> arguments;
  std::optional<TokenRow> who;
  std::optional<HttpResponse> refusal;  // why the request may not go there, or that there is no such place
};

class AccessControl {
 public:
  // `requests_per_s`: of each token, on average; workers' tokens have no such limit. 0: none.
  AccessControl(TokenBook& tokens, const Clock& clock, double requests_per_s);

  Target find_target(const HttpRequest& request);
  // The answer to a request that comes too soon after the others of its token; none where it may go on.
  std::optional<HttpResponse> refuse_excess(const Target& target);

 private:
  std::optional<HttpResponse> check_token(const HttpRequest& request, Target& target);

  TokenBook& tokens_;
  const Clock& clock_;
  const double requests_per_s_;
  TokenBuckets requests_;  // by token
  TokenBuckets failures_;  // requests without a valid token, by address
};

}  // namespace holdfast::rendezvous

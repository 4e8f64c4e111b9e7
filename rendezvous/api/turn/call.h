// One request on its way through the service: what came, who asked, and how it is answered.
//
// Promises: a call is answered once. answer() keeps the answer until the turn has committed, so that nobody is told of what is
// not durable yet. Thread: the owner's, but for `reply`, which any thread may call when the answer tells of nothing that still
// has to be committed.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "rendezvous/api/answers/problems.h"
#include "rendezvous/api/turn/replies.h"
#include "rendezvous/coordinator/coordinator.h"
#include "rendezvous/http/server.h"
#include "rendezvous/store/rows.h"

namespace holdfast::rendezvous {

struct Call {
  HttpRequest request;
  std::vector<std::string> arguments;  // the parts of the path that stand at {…} in the route
  Reply reply;
  std::optional<TokenRow> who;  // the token's row; none where the route needs no token
  Replies& replies;             // outlives the call

  void answer(HttpResponse response) const;
  void answer(const Problem& problem) const;
  void answer(const Refusal& refusal) const { answer(problem_of(refusal)); }
  // An answer without a body, or the refusal.
  template <typename T, typename WhyNot>
  void answer_empty(const tl::expected<T, WhyNot>& outcome, int status = 204) const {
    outcome ? answer_status(status) : answer(outcome.error());
  }

 private:
  void answer_status(int status) const;
};

// The job that the path names. Null when there is none: the call is answered 404 then.
const Job* need_job(const Coordinator& state, const Call& call);

// While it lives, events carry the name of the caller's token. Requests of workers leave events without a name.
class ActingFor {
 public:
  ActingFor(Coordinator& state, const Call& call);
  ~ActingFor() { state_.journal().set_actor(""); }
  ActingFor(const ActingFor&) = delete;

 private:
  Coordinator& state_;
};

}  // namespace holdfast::rendezvous

#include "rendezvous/api/turn/call.h"

#include "rendezvous/api/answers/answers.h"

namespace holdfast::rendezvous {

void Call::answer(HttpResponse response) const {
  replies.count(request.method, response.status);
  if (who && who->role != Role::kWorker) replies.tell_person();
  replies.add(reply, std::move(response));
}

void Call::answer(const Problem& problem) const {
  answer(problem_answer(problem));
}

void Call::answer_status(int status) const {
  answer(empty_answer(status));
}

const Job* need_job(const Coordinator& state, const Call& call) {
  const Job* job = state.find_job(call.arguments[0]);
  if (job == nullptr) call.answer(no_such_job(call.arguments[0]));
  return job;
}

ActingFor::ActingFor(Coordinator& state, const Call& call) : state_(state) {
  if (call.who && call.who->role != Role::kWorker) state_.journal().set_actor(call.who->name);
}

}  // namespace holdfast::rendezvous

#include "rendezvous/api/turn/failure.h"

#include <utility>

#include "rendezvous/api/answers/answers.h"

namespace holdfast::rendezvous {
namespace {

class ReplyGuard {
 public:
  ReplyGuard(Reply reply, std::shared_ptr<const FailureNote> failure)
      : reply_(std::move(reply)), failure_(std::move(failure)) {}
  ReplyGuard(const ReplyGuard&) = delete;
  ~ReplyGuard() {
    if (!answered_) reply_(failure_->answer_instead("the service stopped before it could answer: try again"));
  }
  void answer(HttpResponse response) {
    answered_ = true;
    reply_(std::move(response));
  }

 private:
  Reply reply_;
  std::shared_ptr<const FailureNote> failure_;
  bool answered_ = false;
};

}  // namespace

void FailureNote::set(ServiceFailure failure) {
  const std::lock_guard lock(mutex_);
  failure_ = std::move(failure);
}

std::optional<ServiceFailure> FailureNote::get() const {
  const std::lock_guard lock(mutex_);
  return failure_;
}

HttpResponse FailureNote::answer_instead(const std::string& without_failure) const {
  const auto failure = get();
  return problem_answer(
      problem(503, "unavailable", failure ? "the service could not keep this: " + failure->why : without_failure));
}

Reply guarded(Reply reply, std::shared_ptr<const FailureNote> failure) {
  auto guard = std::make_shared<ReplyGuard>(std::move(reply), std::move(failure));
  return [guard](HttpResponse response) { guard->answer(std::move(response)); };
}

}  // namespace holdfast::rendezvous

#include "rendezvous/api/turn/replies.h"

namespace holdfast::rendezvous {

void Replies::send() {
  for (auto& [reply, response] : waiting_) reply(std::move(response));
  waiting_.clear();
  tells_person_ = false;
}

void Replies::send_instead(const HttpResponse& failure) {
  for (auto& [reply, response] : waiting_) reply(failure);
  waiting_.clear();
  tells_person_ = false;
}

}  // namespace holdfast::rendezvous

#include "rendezvous/api/turn/replies.h"

namespace holdfast::rendezvous {

void Replies::send() {
  for (auto& [reply, response] : waiting_) reply(std::move(response));
  waiting_.clear();
}

void Replies::send_instead(const HttpResponse& failure) {
  for (auto& [reply, response] : waiting_) reply(failure);
  waiting_.clear();
}

}  // namespace holdfast::rendezvous

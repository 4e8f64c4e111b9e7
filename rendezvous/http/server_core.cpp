// Counts, under one lock: nothing here waits or writes.
#include "rendezvous/http/server_core.h"

#include <vector>

#include "rendezvous/http/connection.h"

namespace holdfast::rendezvous {

bool ServerCore::enter(const std::shared_ptr<Connection>& connection) {
  const std::lock_guard lock(mutex_);
  if (stopping_) return false;
  size_t& strangers = strangers_[connection->peer()];
  if (open_.size() >= options_.max_connections || strangers >= options_.max_strangers) {
    ++refused_;
    forget_if_none(connection->peer());
    return false;
  }
  ++strangers;
  open_.emplace(connection.get(), connection);
  return true;
}

void ServerCore::leave(const Connection* connection, bool stranger) {
  const std::lock_guard lock(mutex_);
  if (open_.erase(connection) == 0 || !stranger) return;
  --strangers_[connection->peer()];
  forget_if_none(connection->peer());
}

void ServerCore::know(const std::string& peer) {
  const std::lock_guard lock(mutex_);
  --strangers_[peer];
  forget_if_none(peer);
}

void ServerCore::forget_if_none(const std::string& peer) {
  if (const auto found = strangers_.find(peer); found != strangers_.end() && found->second == 0) strangers_.erase(found);
}

bool ServerCore::reserve_answer(size_t bytes) {
  const std::lock_guard lock(mutex_);
  if (answer_bytes_ + bytes > options_.max_answers_bytes) return false;
  answer_bytes_ += bytes;
  return true;
}

void ServerCore::release_answer(size_t bytes) {
  const std::lock_guard lock(mutex_);
  answer_bytes_ -= bytes;
}

bool ServerCore::reserve(size_t body_bytes) {
  const std::lock_guard lock(mutex_);
  const bool object = body_bytes > options_.max_body_bytes;
  size_t& held = object ? object_bytes_ : body_bytes_;
  if (held + body_bytes > (object ? options_.max_objects_bytes : options_.max_bodies_bytes)) return false;
  held += body_bytes;
  return true;
}

void ServerCore::release(size_t body_bytes) {
  const std::lock_guard lock(mutex_);
  (body_bytes > options_.max_body_bytes ? object_bytes_ : body_bytes_) -= body_bytes;
}

void ServerCore::unless_stopping(const std::function<void()>& work) {
  const std::lock_guard lock(mutex_);
  if (!stopping_) work();
}

void ServerCore::stop() {
  std::vector<std::shared_ptr<Connection>> open;  // released after the lock
  const std::lock_guard lock(mutex_);
  stopping_ = true;
  for (const auto& [address, connection] : open_) {
    if (auto alive = connection.lock()) open.push_back(std::move(alive));
  }
  for (const auto& connection : open) connection->close();
}

HttpServerCounts ServerCore::counts() const {
  const std::lock_guard lock(mutex_);
  return {static_cast<int64_t>(open_.size()), streams_, refused_};
}

}  // namespace holdfast::rendezvous

#include "rendezvous/process/leader_watch.h"

#include "rendezvous/client/http_client.h"

namespace holdfast::rendezvous {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr milliseconds kBetween{500}, kPatience{1000};

}  // namespace

LeaderWatch::LeaderWatch() : thread_([this](const std::stop_token& stop) { run(stop); }) {}

LeaderWatch::~LeaderWatch() {
  ends_ = true;
}

void LeaderWatch::look_at(const std::string& address) {
  const std::lock_guard lock(mutex_);
  if (address_ == address) return;
  address_ = address;
  answered_ = steady_clock::now();
  unanswered_since_.reset();
  changed_.notify_all();
}

std::optional<LeaderWatch::Moment> LeaderWatch::unanswered_since() const {
  const std::lock_guard lock(mutex_);
  return unanswered_since_;
}

void LeaderWatch::run(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  while (changed_.wait(lock, stop, [this] { return !address_.empty(); }) && !stop.stop_requested()) {
    const std::string address = address_;
    const Moment asked = steady_clock::now();
    lock.unlock();
    const bool answered = answers(address);
    lock.lock();
    if (address == address_) note(address, asked, answered);
    changed_.wait_for(lock, stop, kBetween, [&] { return address != address_; });
  }
}

// A connection of its own each time: one that is kept would hang where the way back alone is lost.
bool LeaderWatch::answers(const std::string& address) const {
  HttpClient client(address, "");
  client.set_stop(&ends_);
  const auto reply = client.request("GET", "/healthz", {}, {}, kPatience);
  return reply || !reply.error().unreachable;
}

void LeaderWatch::note(const std::string& address, Moment asked, bool answered) {
  if (answered) {
    reached_ = address;
    answered_ = asked;
    unanswered_since_.reset();
  } else if (!unanswered_since_ && reached_ == address) {
    unanswered_since_ = answered_;
  }
}

}  // namespace holdfast::rendezvous

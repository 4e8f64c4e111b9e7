#include "worker/link/interrupt.h"

#include <utility>

namespace holdfast::worker {

void Interrupt::raise(const std::string& reason) {
  const std::lock_guard lock(mutex_);
  if (flag_.load()) return;
  reason_ = reason;
  flag_.store(true);
  if (hook_) hook_(reason_);
  changed_.notify_all();
}

void Interrupt::reset() {
  const std::lock_guard lock(mutex_);
  flag_.store(false);
  reason_.clear();
}

std::string Interrupt::reason() const {
  const std::lock_guard lock(mutex_);
  return reason_;
}

bool Interrupt::wait_for(std::chrono::steady_clock::duration duration) {
  return wait_until(std::chrono::steady_clock::now() + duration);
}

bool Interrupt::wait_until(std::chrono::steady_clock::time_point deadline) {
  std::unique_lock lock(mutex_);
  return changed_.wait_until(lock, deadline, [this] { return flag_.load(); });
}

Interrupt::Scope::Scope(Interrupt& interrupt, Hook hook) : interrupt_(interrupt) {
  const std::lock_guard lock(interrupt_.mutex_);
  outer_ = std::exchange(interrupt_.hook_, std::move(hook));
  if (interrupt_.flag_.load()) interrupt_.hook_(interrupt_.reason_);
}

Interrupt::Scope::~Scope() {
  const std::lock_guard lock(interrupt_.mutex_);
  interrupt_.hook_ = std::move(outer_);
  if (interrupt_.hook_ && interrupt_.flag_.load()) interrupt_.hook_(interrupt_.reason_);
}

}  // namespace holdfast::worker

#include "rendezvous/api/turn/command_queue.h"

#include <chrono>
#include <utility>

namespace holdfast::rendezvous {

bool CommandQueue::add(Command command) {
  {
    const std::lock_guard lock(mutex_);
    if (closed_ || commands_.size() >= size_max_) return false;
    commands_.push_back(std::move(command));
  }
  changed_.notify_one();
  return true;
}

void CommandQueue::add_result(Command command) {
  {
    const std::lock_guard lock(mutex_);
    if (closed_) return;
    commands_.push_back(std::move(command));
  }
  changed_.notify_one();
}

std::deque<CommandQueue::Command> CommandQueue::take() {
  const std::lock_guard lock(mutex_);
  return std::exchange(commands_, {});
}

void CommandQueue::wait(int64_t ms_max) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, std::chrono::milliseconds(ms_max), [this] { return !commands_.empty() || stopping_; });
}

void CommandQueue::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
}

bool CommandQueue::stopping() const {
  const std::lock_guard lock(mutex_);
  return stopping_;
}

void CommandQueue::close() {
  std::deque<Command> late;  // destroyed without the lock: the replies in it answer for themselves
  {
    const std::lock_guard lock(mutex_);
    closed_ = stopping_ = true;
    late.swap(commands_);
  }
  changed_.notify_all();
}

}  // namespace holdfast::rendezvous

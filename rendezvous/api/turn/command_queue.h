// The way from any thread to the owner thread: commands wait here for the owner's next turn.
//
// Promises: commands run in the order in which they came. A closed queue drops what it holds and takes nothing more, so whoever
// shares it may keep it beyond the service's life. Refuses: more than `size_max` waiting commands (add() returns false; the
// caller answers 503).
// Thread: any; take() and wait() are for the owner.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>

namespace holdfast::rendezvous {

class CommandQueue {
 public:
  using Command = std::function<void()>;

  explicit CommandQueue(size_t size_max) : size_max_(size_max) {}

  [[nodiscard]] bool add(Command command);
  // Takes the command even if the queue is full. For results of the service's own work: a full queue must not lose them.
  void add_result(Command command);
  std::deque<Command> take();
  void wait(int64_t ms_max);  // until there is a command, or stop()
  void stop();                // ends wait(); commands are still taken
  bool stopping() const;
  void close();

 private:
  const size_t size_max_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Command> commands_;
  bool stopping_ = false, closed_ = false;
};

}  // namespace holdfast::rendezvous

// A switch that ends the waiting of the train thread, whatever it waits for.
//
// Promises: after raise() every wait of this object ends at once, the hook in force has been called, and flag() reads
// true, until reset(). A hook set while the switch is raised is called at once.
// Thread: any; raise() calls the hook on its own thread, with the switch locked: a hook must not come back here.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>

namespace holdfast::worker {

class Interrupt {
 public:
  using Hook = std::function<void(const std::string& reason)>;

  void raise(const std::string& reason);
  void reset();
  bool raised() const { return flag_.load(); }
  std::string reason() const;
  const std::atomic<bool>* flag() const { return &flag_; }

  // Sleep until then, or until the switch is raised; return whether it is raised.
  bool wait_for(std::chrono::steady_clock::duration duration);
  bool wait_until(std::chrono::steady_clock::time_point deadline);

  // Calls `hook` if raise() comes during this object's life. An inner scope takes the place of the outer one until it ends.
  class Scope {
   public:
    Scope(Interrupt& interrupt, Hook hook);
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    Interrupt& interrupt_;
    Hook outer_;
  };

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::atomic<bool> flag_{false};
  std::string reason_;
  Hook hook_;
};

}  // namespace holdfast::worker

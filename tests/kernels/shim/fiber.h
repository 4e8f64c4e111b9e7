// One thread of a block: a function that can stop in the middle and go on later, on a stack of its own.
//
// Promises: the address sanitizer is told of every change of stacks. A fiber runs one function after the other, and is not
// destroyed: its stack is. Thread: all fibers of one thread.
#pragma once

#include <functional>
#include <memory>

namespace shim {

class Fiber {
 public:
  Fiber();
  ~Fiber();
  Fiber(Fiber&&) noexcept;

  void start(const std::function<void()>& body);  // none may be under way; it outlives the run
  void resume();                                  // until it suspends or ends
  bool ended() const;
  static void suspend();  // called by what runs in a fiber

 private:
  struct State;
  static void leave(State& state);
  std::unique_ptr<State> state_;
};

}  // namespace shim

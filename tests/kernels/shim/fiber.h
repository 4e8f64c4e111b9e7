// A fiber: one thread of a block, which is a function that can stop in the middle and go on later, on its own stack.
//
// Promises: the address sanitizer is told of every change of stacks. A fiber runs one function after the other, all on the
// same stack. Thread: all fibers run on one thread.
#pragma once

#include <functional>
#include <memory>

namespace shim {

class Fiber {
 public:
  Fiber();
  ~Fiber();
  Fiber(Fiber&&) noexcept;

  void start(const std::function<void()>& body);  // the last one must have ended; `body` outlives the run
  void resume();                                  // returns when the fiber suspends or ends
  bool ended() const;
  static void suspend();  // called by the function that runs in a fiber

 private:
  struct State;
  static void leave(State& state);
  std::unique_ptr<State> state_;
};

}  // namespace shim

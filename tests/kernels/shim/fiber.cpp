#include "tests/kernels/shim/fiber.h"

#include <boost/context/fiber.hpp>
#include <boost/context/preallocated.hpp>
#include <cstddef>
#include <utility>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#endif

namespace shim {
namespace {

constexpr size_t kStackBytes = 128 << 10;

// Tells the address sanitizer about the stack that is left and the stack that is entered.
void before_switch([[maybe_unused]] void** left, [[maybe_unused]] const void* bottom, [[maybe_unused]] size_t bytes) {
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_start_switch_fiber(left, bottom, bytes);
#endif
}
void after_switch([[maybe_unused]] void* entered, [[maybe_unused]] const void** bottom, [[maybe_unused]] size_t* bytes) {
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(entered, bottom, bytes);
#endif
}

// Frees nothing: the stack belongs to the fiber, which uses it again.
struct NoAllocation {
  void deallocate(boost::context::stack_context&) noexcept {}
};

}  // namespace

struct Fiber::State {
  std::unique_ptr<char[]> stack{new char[kStackBytes]};
  boost::context::fiber inside, outside;
  const std::function<void()>* body = nullptr;
  bool ended = true;
  void *inside_fake = nullptr, *outside_fake = nullptr;
  const void* outside_bottom = nullptr;
  size_t outside_bytes = 0;

  static inline State* running = nullptr;
};

Fiber::Fiber() : state_(std::make_unique<State>()) {}
Fiber::~Fiber() = default;
Fiber::Fiber(Fiber&&) noexcept = default;

void Fiber::start(const std::function<void()>& body) {
  State* const state = state_.get();
  state->body = &body;
  state->ended = false;
  if (state->inside) return;  // the fiber exists already and waits for its next function
  boost::context::stack_context stack;
  stack.size = kStackBytes;
  stack.sp = state->stack.get() + kStackBytes;
  state->inside = boost::context::fiber(std::allocator_arg, boost::context::preallocated(stack.sp, stack.size, stack),
                                        NoAllocation{}, [state](boost::context::fiber&& outside) -> boost::context::fiber {
                                          after_switch(nullptr, &state->outside_bottom, &state->outside_bytes);
                                          state->outside = std::move(outside);
                                          while (true) {
                                            (*state->body)();
                                            state->ended = true;
                                            leave(*state);
                                          }
                                        });
}

void Fiber::resume() {
  State* const before = std::exchange(State::running, state_.get());
  before_switch(&state_->outside_fake, state_->stack.get(), kStackBytes);
  state_->inside = std::move(state_->inside).resume();
  after_switch(state_->outside_fake, nullptr, nullptr);
  State::running = before;
}

bool Fiber::ended() const {
  return state_->ended;
}

void Fiber::suspend() {
  leave(*State::running);
}

void Fiber::leave(State& state) {
  before_switch(&state.inside_fake, state.outside_bottom, state.outside_bytes);
  state.outside = std::move(state.outside).resume();
  after_switch(state.inside_fake, &state.outside_bottom, &state.outside_bytes);
}

}  // namespace shim

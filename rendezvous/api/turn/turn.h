// The things that a handler works on in the owner's turn. All of them outlive the handlers.
#pragma once

#include <memory>

#include "rendezvous/api/turn/command_queue.h"
#include "rendezvous/api/turn/replies.h"
#include "rendezvous/coordinator/clock.h"
#include "rendezvous/coordinator/coordinator.h"

namespace holdfast::rendezvous {

constexpr Millis kTickMs = 50;  // the longest time between two turns

struct Turn {
  Coordinator& state;
  const Clock& clock;
  Replies& replies;
  // The way back into a later turn, for other threads. Shared with those that may come when the service is gone.
  std::shared_ptr<CommandQueue> commands;
};

}  // namespace holdfast::rendezvous

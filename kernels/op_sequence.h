// A sequence of ops that is called again and again, each time with the same arguments: the same memory, shapes and numbers.
// The contents of the memory differ. An op set that queues its work may record the sequence once, and queue the record from
// then on, which costs the host one call instead of hundreds.
//
// Promises: `run` does what calling `ops` does, with the same bits. Where nothing can be recorded it calls `ops`, always.
// Requires: ops() calls ops of one op set, those alone that return nothing and bring nothing from or to the host, and has no
// effect but theirs: it may be called, be called twice, or not be called. Another `variant` says that arguments are others than
// with the last run. Memory that the sequence uses is there for as long as it is run; it may be given back after the sequence.
// Ownership: the op set outlives it. Thread: the op set's.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace holdfast::kernels {

class OpSequence {
 public:
  OpSequence() = default;
  virtual ~OpSequence() = default;
  OpSequence(const OpSequence&) = delete;
  OpSequence& operator=(const OpSequence&) = delete;

  virtual void run([[maybe_unused]] uint64_t variant, const std::function<void()>& ops) { ops(); }

  // How often a record was queued instead of calling `ops`.
  virtual int64_t replays() const { return 0; }
  // The reason why it is not recorded, in the words of what refused it. Empty: nothing refused.
  virtual std::string refusal() const { return {}; }
};

}  // namespace holdfast::kernels

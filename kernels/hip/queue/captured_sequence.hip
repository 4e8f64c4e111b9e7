// When a sequence is recorded, and what becomes of a refusal.
#include "kernels/hip/queue/captured_sequence.h"

#include <exception>

namespace holdfast::kernels::hip {

void CapturedSequence::run(uint64_t variant, const std::function<void()>& ops) {
  if (!refusal_.empty()) return ops();
  const Arguments now{variant, moves_()};
  if (last_ != now) {
    graph_.reset();
    ops();
    last_ = {variant, moves_()};
    return;
  }
  if (graph_ == nullptr) record(ops);
  if (graph_ == nullptr) return ops();
  side_.join();
  graph_->launch(stream_);
  ++replays_;
}

// An error here is thrown once more when the ops are called after it, unless it is of the recording alone.
void CapturedSequence::record(const std::function<void()>& ops) {
  side_.join();
  try {
    graph_ = std::make_unique<Graph>(stream_, [&] {
      ops();
      side_.join();
    });
  } catch (const std::exception& error) {
    side_.forget();
    refusal_ = error.what();
  } catch (...) {
    side_.forget();
    throw;
  }
}

}  // namespace holdfast::kernels::hip

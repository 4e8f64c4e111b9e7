// A sequence of ops as a graph of the runtime's (op_sequence.h): one launch instead of some hundred, which cost the host 3 to 5
// microseconds each.
//
// The first run with some arguments only calls the ops: scratch grows to its size, and a library of products chooses its
// algorithms. The second one records them, while nothing is done, and launches the record; so do those that follow. Where the
// arguments are others, or scratch has another place by then, it begins anew. A runtime that refuses to record is no failure:
// the sequence says so (`refusal`), and calls its ops from then on.
// HOLDFAST_GPU_GRAPHS=0 in the environment: ops are always called. Errors are those of the ops. Thread: the op set's.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "kernels/hip/queue/side_stream.h"
#include "kernels/hip/runtime.h"
#include "kernels/op_sequence.h"

namespace holdfast::kernels::hip {

class CapturedSequence final : public OpSequence {
 public:
  // `moves`: how often the op set's scratch has changed its place so far. All outlive the sequence.
  CapturedSequence(const Stream& stream, SideStream& side, std::function<uint64_t()> moves)
      : stream_(stream), side_(side), moves_(std::move(moves)) {}

  void run(uint64_t variant, const std::function<void()>& ops) override;
  int64_t replays() const override { return replays_; }
  std::string refusal() const override { return refusal_; }

 private:
  struct Arguments {
    uint64_t variant, moves;
    bool operator==(const Arguments&) const = default;
  };
  void record(const std::function<void()>& ops);

  const Stream& stream_;
  SideStream& side_;
  std::function<uint64_t()> moves_;
  std::optional<Arguments> last_;  // of the last run
  std::unique_ptr<Graph> graph_;   // of that run's; null: not recorded
  int64_t replays_ = 0;
  std::string refusal_;
};

}  // namespace holdfast::kernels::hip

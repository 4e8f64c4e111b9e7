// Writes checkpoints, or this writer's parts of them (checkpoint_parts.h), in the background while training goes on.
//
// The stall is the copy into the writer's own buffer (`submit`), or what is waited for of it (`submit_beside`); packing and
// writing happen on its threads, when the processors have nothing else to do and now and then where they always have
// (in_background of parallel.h). One write at a
// time: a submit while one is under way replaces nothing and waits for nothing, it is refused with the step under way,
// and the caller says so in an event. A failed write is reported, never thrown, and the copy is kept for `retry`.
// Any thread may call anything: of a submit and a retry at the same time (the thread that trains, the one that tends), one
// has the writer and the other is told that a write is under way.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "storage/checkpoint.h"
#include "storage/checkpoint_parts.h"

namespace holdfast::storage {

struct WriteOutcome {
  Result<Manifest> result;
  std::optional<Part> part;  // where that was asked for: then `result` is the manifest as it was given
  int64_t step = 0;
  double stall_s = 0;  // the copy, or as much of it as somebody waited for
  double write_s = 0;  // the rest, in the background
};

// A copy that a writer makes beside whoever submitted the bytes.
class CopyBeside {
 public:
  virtual ~CopyBeside() = default;
  // Returns when the bytes are not read any more, and helps until then. Any thread, any number of times, also when the writer
  // is gone.
  virtual void wait() = 0;
};

class CheckpointWriter {
 public:
  // `on_done` runs on the writer's thread after each write, success or not; the write is under way until it returns.
  // `store` outlives the writer.
  CheckpointWriter(ObjectStore& store, WriteOptions options, std::function<void(const WriteOutcome&)> on_done);
  ~CheckpointWriter();  // waits for the write under way

  // Copies the tensors, with as many threads as the options say, and returns; false when a write is under way (nothing is
  // copied then). A write is under way from the moment that this begins to copy. Where their bytes are not the host's, `copy`
  // does it, a part after the other; what it throws is the failure of this write, and comes out here.
  using CopyBytes = std::function<void(std::byte* to, std::span<const std::byte> from)>;
  bool submit(Manifest manifest, std::span<const ConstTensor> tensors, const CopyBytes& copy = nullptr);
  // The same of a part. `manifest` has the tensors.
  bool submit(Manifest manifest, PartOf of, std::span<const PieceBytes> pieces, const CopyBytes& copy = nullptr);
  // The same of tensors in the host's memory, which nobody changes or gives back before the copy that this returns was waited
  // for: the writer makes it meanwhile. Null where a write is under way.
  std::shared_ptr<CopyBeside> submit_beside(Manifest manifest, std::span<const ConstTensor> tensors);
  // Takes memory for copies of so many bytes ahead, when the processors have nothing else to do and until somebody submits: a
  // first copy is as quick as later ones then. Not while a write is under way.
  void make_room(size_t bytes);
  // Shards of failed writes are removed when a later step is written, so that they take no room. This leaves those of writes
  // that failed until now to remove_orphans: somebody else may have written these steps since.
  void forget_left_behind();
  // Frees the memory that copies took, once no write is under way or may be tried again.
  void give_back_room();
  // Writes the copy of the last failed write again, where that may help; false when there is none or one is under way. A submit
  // drops it.
  bool retry();
  // The step being copied or written now.
  std::optional<int64_t> in_progress() const;
  // Returns when no write is under way.
  void wait_idle();

 private:
  class CopyUnderWay;
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace holdfast::storage

#include "storage/checkpoint_writer.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <exception>
#include <mutex>
#include <new>
#include <thread>

#include "storage/failure.h"
#include "storage/parallel.h"
#include "storage/shards/codec.h"

namespace holdfast::storage {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

struct Part {
  std::byte* to;
  std::span<const std::byte> from;
};

// Parts of at most a few MB, so that several threads have some each.
std::vector<Part> parts_of(std::span<const ConstTensor> tensors, std::byte* to) {
  constexpr size_t kPartBytes = 4 << 20;
  std::vector<Part> parts;
  for (const ConstTensor& tensor : tensors) {
    for (size_t at = 0; at < tensor.bytes.size(); at += kPartBytes) {
      parts.push_back({to + at, tensor.bytes.subspan(at, std::min(kPartBytes, tensor.bytes.size() - at))});
    }
    to += tensor.bytes.size();
  }
  return parts;
}

}  // namespace

struct CheckpointWriter::State {
  // A state as it was when it was submitted. Belongs to whoever claimed the writer, and to the writer's thread from `ready`
  // until the claim is over.
  struct Copy {
    // Kept between checkpoints, so that only the first submit pays for its pages. (Huge pages were tried: the first submit
    // took 0.4 s at best and 3.9 s when the system had to find them, for 362 MB; 0.7 s without.)
    Scratch buffer;
    Manifest manifest;
    std::vector<ConstTensor> tensors;  // in the buffer, or in what `owners` has
    Owners owners;
    Result<void> made;  // an error when there was no memory for it
    double stall_s = 0;
  };

  ObjectStore& store;
  WriteOptions options;
  const std::function<void(const WriteOutcome&)> on_done;
  Copy copy;

  std::mutex mutex;
  std::condition_variable changed;
  std::optional<int64_t> claimed;  // the step: set by one submit or retry, ended by the writer's thread
  bool ready = false;              // claimed, and `copy` is whole: the thread may write it. Ends when it begins to
  bool can_retry = false;          // `copy` is that of a write that failed
  bool closing = false;
  std::thread thread;

  State(ObjectStore& s, WriteOptions o, std::function<void(const WriteOutcome&)> done)
      : store(s), options(o), on_done(std::move(done)) {
    options.in_background = true;
  }

  Result<void> take_copy(std::span<const ConstTensor> tensors, const CopyBytes& copy_bytes);
  void run();
  WriteOutcome write();
};

Result<void> CheckpointWriter::State::take_copy(std::span<const ConstTensor> tensors, const CopyBytes& copy_bytes) {
  const auto is_owned = [&](size_t i) { return i < copy.owners.size() && copy.owners[i] != nullptr; };
  std::vector<ConstTensor> to_copy;
  size_t bytes = 0;
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (is_owned(i)) continue;
    to_copy.push_back(tensors[i]);
    bytes += tensors[i].bytes.size();
  }
  std::byte* to = nullptr;
  try {
    to = copy.buffer.at_least(bytes);
  } catch (const std::bad_alloc&) {
    return fail(Error::Code::kUnavailable,
                "no memory for a copy of the state ({} bytes), so no checkpoint is written: it is tried at the next one",
                bytes);
  }
  const std::vector<Part> parts = parts_of(to_copy, to);
  Result<void> copied;
  if (copy_bytes) {
    for (const Part& part : parts) copy_bytes(part.to, part.from);
  } else {
    copied = in_parallel(parts.size(), options.threads, [&](size_t i, int) -> Result<void> {
      std::memcpy(parts[i].to, parts[i].from.data(), parts[i].from.size());
      return {};
    });
  }
  copy.tensors.assign(tensors.begin(), tensors.end());
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (is_owned(i)) continue;
    copy.tensors[i].bytes = {to, tensors[i].bytes.size()};
    to += tensors[i].bytes.size();
  }
  return copied;
}

void CheckpointWriter::State::run() {
  std::unique_lock lock(mutex);
  while (true) {
    changed.wait(lock, [&] { return ready || closing; });
    if (!ready) return;
    ready = false;
    lock.unlock();
    const WriteOutcome outcome = write();
    if (on_done) on_done(outcome);
    lock.lock();
    if (outcome.result) copy.owners.clear();
    claimed = std::nullopt;
    can_retry = !outcome.result && copy.made;
    changed.notify_all();
  }
}

WriteOutcome CheckpointWriter::State::write() {
  const Clock::time_point start = Clock::now();
  WriteOutcome outcome{tl::unexpected(Error{}), copy.manifest.step, copy.stall_s, 0};
  try {
    if (copy.made) {
      outcome.result = write_checkpoint(store, copy.manifest, copy.tensors, options);
    } else {
      outcome.result = tl::unexpected(copy.made.error());
    }
  } catch (const std::exception& e) {
    outcome.result = fail(Error::Code::kUnavailable, "the checkpoint was not written: {}", e.what());
  }
  outcome.write_s = seconds_since(start);
  return outcome;
}

CheckpointWriter::CheckpointWriter(ObjectStore& store, WriteOptions options, std::function<void(const WriteOutcome&)> on_done)
    : state_(std::make_unique<State>(store, options, std::move(on_done))) {
  state_->thread = std::thread([state = state_.get()] { state->run(); });
}

CheckpointWriter::~CheckpointWriter() {
  {
    const std::scoped_lock lock(state_->mutex);
    state_->closing = true;
  }
  state_->changed.notify_all();
  state_->thread.join();
}

bool CheckpointWriter::submit(Manifest manifest, std::span<const ConstTensor> tensors, const CopyBytes& copy_bytes,
                              Owners owners) {
  {
    const std::scoped_lock lock(state_->mutex);
    if (state_->claimed) return false;
    state_->claimed = manifest.step;
    state_->can_retry = false;
  }
  const Clock::time_point start = Clock::now();
  State::Copy& copy = state_->copy;
  copy.manifest = std::move(manifest);
  copy.owners = std::move(owners);
  std::exception_ptr of_copy_bytes;
  try {
    copy.made = state_->take_copy(tensors, copy_bytes);
  } catch (const std::exception& e) {  // a claim is always ended, and by the thread: it reports this
    copy.made = fail(Error::Code::kUnavailable, "no copy of the state was made, so no checkpoint is written: {}", e.what());
    if (copy_bytes) of_copy_bytes = std::current_exception();
  }
  copy.stall_s = seconds_since(start);
  {
    const std::scoped_lock lock(state_->mutex);
    state_->ready = true;
  }
  state_->changed.notify_all();
  if (of_copy_bytes) std::rethrow_exception(of_copy_bytes);
  return true;
}

bool CheckpointWriter::retry() {
  {
    const std::scoped_lock lock(state_->mutex);
    if (state_->claimed || !state_->can_retry) return false;
    state_->claimed = state_->copy.manifest.step;
    state_->can_retry = false;
    state_->ready = true;
  }
  state_->changed.notify_all();
  return true;
}

std::optional<int64_t> CheckpointWriter::in_progress() const {
  const std::scoped_lock lock(state_->mutex);
  return state_->claimed;
}

void CheckpointWriter::wait_idle() {
  std::unique_lock lock(state_->mutex);
  state_->changed.wait(lock, [&] { return !state_->claimed; });
}

}  // namespace holdfast::storage

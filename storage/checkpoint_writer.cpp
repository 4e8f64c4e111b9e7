#include "storage/checkpoint_writer.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <exception>
#include <mutex>
#include <new>
#include <set>
#include <thread>
#include <utility>

#include "storage/failure.h"
#include "storage/parallel.h"
#include "storage/shards/codec.h"

namespace holdfast::storage {

// Bytes to be copied at once.
struct CopyStretch {
  std::byte* to;
  std::span<const std::byte> from;
};

namespace {

using Clock = std::chrono::steady_clock;

// Whether trying again may help.
bool may_pass(const Error& error) {
  return error.code == Error::Code::kUnavailable || error.code == Error::Code::kNoSpace;
}

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// Stretches of at most a few MB, so that several threads have some each.
template <typename Kept>
std::vector<CopyStretch> stretches_of(const std::vector<Kept>& all, std::byte* to) {
  constexpr size_t kBytes = 4 << 20;
  std::vector<CopyStretch> stretches;
  for (const Kept& one : all) {
    for (size_t at = 0; at < one.bytes.size(); at += kBytes) {
      stretches.push_back({to + at, one.bytes.subspan(at, std::min(kBytes, one.bytes.size() - at))});
    }
    to += one.bytes.size();
  }
  return stretches;
}

// The stretches to copy into the buffer; from now on `all` has its bytes there.
template <typename Kept>
Result<std::vector<CopyStretch>> move_into(Scratch& buffer, std::vector<Kept>& all) {
  size_t bytes = 0;
  for (const Kept& one : all) bytes += one.bytes.size();
  std::byte* to = nullptr;
  try {
    to = buffer.at_least(bytes);
  } catch (const std::bad_alloc&) {
    return fail(Error::Code::kUnavailable,
                "no memory for a copy of the state ({} bytes), so no checkpoint is written: it is tried at the next one",
                bytes);
  }
  std::vector<CopyStretch> stretches = stretches_of(all, to);
  for (Kept& one : all) {
    one.bytes = {to, one.bytes.size()};
    to += one.bytes.size();
  }
  return stretches;
}

Result<void> copy_now(const std::vector<CopyStretch>& stretches, int threads, const CheckpointWriter::CopyBytes& copy_bytes) {
  if (copy_bytes) {
    for (const CopyStretch& stretch : stretches) copy_bytes(stretch.to, stretch.from);
    return {};
  }
  return in_parallel(stretches.size(), threads, [&](size_t i, int) -> Result<void> {
    std::memcpy(stretches[i].to, stretches[i].from.data(), stretches[i].from.size());
    return {};
  });
}

// Gives pages to memory that has none, and leaves its bytes as they are. Where the system cannot, the first copy does.
void give_pages(std::byte* memory, size_t bytes) {
  const auto page = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
  const uintptr_t first = (reinterpret_cast<uintptr_t>(memory) + page - 1) / page * page,
                  last = (reinterpret_cast<uintptr_t>(memory) + bytes) / page * page;
  if (first < last) static_cast<void>(::madvise(reinterpret_cast<void*>(first), last - first, MADV_POPULATE_WRITE));
}

}  // namespace

class CheckpointWriter::CopyUnderWay final : public CopyBeside {
 public:
  explicit CopyUnderWay(std::vector<CopyStretch> stretches) : stretches_(std::move(stretches)), ended_at_(Clock::now()) {}

  void wait() override {
    {
      const std::scoped_lock lock(mutex_);
      if (copied_ == stretches_.size()) return;
      if (!awaited_since_) awaited_since_ = Clock::now();
    }
    finish();
  }
  void finish() {
    for (size_t i = next_++; i < stretches_.size(); i = next_++) {
      std::memcpy(stretches_[i].to, stretches_[i].from.data(), stretches_[i].from.size());
      const std::scoped_lock lock(mutex_);
      if (++copied_ == stretches_.size()) ended_at_ = Clock::now();
      changed_.notify_all();
    }
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return copied_ == stretches_.size(); });
  }
  double waited_s() const {  // when it is finished
    const std::scoped_lock lock(mutex_);
    return awaited_since_ ? std::chrono::duration<double>(ended_at_ - *awaited_since_).count() : 0;
  }

 private:
  const std::vector<CopyStretch> stretches_;
  std::atomic<size_t> next_ = 0;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  size_t copied_ = 0;
  Clock::time_point ended_at_;
  std::optional<Clock::time_point> awaited_since_;
};

struct CheckpointWriter::State {
  // A state, or some of its pieces, as it was when it was submitted. Belongs to whoever claimed the writer, and to the writer's
  // thread from `ready` until the claim is over.
  struct Copy {
    // Kept between checkpoints, so that only the first submit pays for its pages. (Huge pages were tried: the first submit
    // took 0.4 s at best and 3.9 s when the system had to find them, for 362 MB; 0.7 s without.)
    Scratch buffer;
    Manifest manifest;
    std::vector<ConstTensor> tensors;  // in the buffer
    std::optional<PartOf> of;          // then these instead:
    std::vector<PieceBytes> pieces;
    Result<void> made;                     // an error when there was no memory for it
    std::shared_ptr<CopyUnderWay> beside;  // to be finished by the thread
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
  size_t room = 0;                // bytes of the buffer that the thread is to give pages to
  bool gives_back = false;        // the thread is to free the buffer, if nobody needs it
  std::set<int64_t> left_behind;  // steps of failed writes, whose objects may be there; the thread's own
  std::atomic<bool> forgets_left_behind = false;
  std::thread thread;

  State(ObjectStore& s, WriteOptions o, std::function<void(const WriteOutcome&)> done)
      : store(s), options(o), on_done(std::move(done)) {
    options.in_background = true;
  }

  // Takes the claim, if there is none.
  bool claim(int64_t step);
  // With the claim, and the copy filled in with the caller's bytes.
  void copy_and_write(const CopyBytes& copy_bytes);
  void begin_write();
  void take_room(size_t bytes);
  void run();
  void remove_left_behind();
  WriteOutcome write();
};

void CheckpointWriter::State::run() {
  std::unique_lock lock(mutex);
  while (true) {
    const auto may_give_back = [&] { return gives_back && !claimed && !can_retry; };
    changed.wait(lock, [&] { return ready || closing || room > 0 || may_give_back(); });
    if (may_give_back()) {
      copy.buffer = Scratch();
      gives_back = false;
    }
    const size_t wanted = std::exchange(room, 0);
    if (!ready && closing) return;
    if (!ready) {
      lock.unlock();
      if (wanted > 0) take_room(wanted);
      lock.lock();
      continue;
    }
    ready = false;
    lock.unlock();
    if (const auto beside = std::exchange(copy.beside, nullptr)) {
      beside->finish();
      copy.stall_s = beside->waited_s();
    }
    const WriteOutcome outcome = write();
    if (on_done) on_done(outcome);
    lock.lock();
    claimed = std::nullopt;
    can_retry = !outcome.result && copy.made && may_pass(outcome.result.error());
    changed.notify_all();
  }
}

// Of steps that are not tried again, so that a full disk has room. Their shards would stay until a checkpoint succeeds.
void CheckpointWriter::State::remove_left_behind() {
  if (forgets_left_behind.exchange(false)) left_behind.clear();
  for (auto step = left_behind.begin(); step != left_behind.end();) {
    if (*step == copy.manifest.step) {
      ++step;
    } else if (const auto removed = remove_unfinished_write(store, *step); removed || !may_pass(removed.error())) {
      step = left_behind.erase(step);
    } else {
      return;  // the next write tries it again
    }
  }
}

WriteOutcome CheckpointWriter::State::write() {
  const Clock::time_point start = Clock::now();
  WriteOutcome outcome{tl::unexpected(Error{}), std::nullopt, copy.manifest.step, copy.stall_s, 0};
  try {
    if (!copy.made) {
      outcome.result = tl::unexpected(copy.made.error());
    } else if (!copy.of) {
      remove_left_behind();
      left_behind.insert(copy.manifest.step);
      outcome.result = write_checkpoint(store, copy.manifest, copy.tensors, options);
      if (outcome.result) left_behind.erase(copy.manifest.step);
    } else if (auto part = write_part(store, copy.manifest, *copy.of, copy.pieces, options)) {
      outcome.result = copy.manifest;
      outcome.part = std::move(*part);
    } else {
      outcome.result = tl::unexpected(std::move(part.error()));
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

bool CheckpointWriter::State::claim(int64_t step) {
  const std::scoped_lock lock(mutex);
  if (claimed) return false;
  claimed = step;
  can_retry = false;
  return true;
}

void CheckpointWriter::State::copy_and_write(const CopyBytes& copy_bytes) {
  const Clock::time_point start = Clock::now();
  std::exception_ptr of_copy_bytes;
  try {
    auto stretches = copy.of ? move_into(copy.buffer, copy.pieces) : move_into(copy.buffer, copy.tensors);
    copy.made = stretches ? copy_now(*stretches, options.threads, copy_bytes) : tl::unexpected(std::move(stretches.error()));
  } catch (const std::exception& e) {  // a claim is always ended, and by the thread: it reports this
    copy.made = fail(Error::Code::kUnavailable, "no copy of the state was made, so no checkpoint is written: {}", e.what());
    if (copy_bytes) of_copy_bytes = std::current_exception();
  }
  copy.stall_s = seconds_since(start);
  begin_write();
  if (of_copy_bytes) std::rethrow_exception(of_copy_bytes);
}

void CheckpointWriter::State::begin_write() {
  const std::scoped_lock lock(mutex);
  ready = true;
  changed.notify_all();
}

// A claim ends it. Pages are given without the lock, which a thread that has no processor would keep from whoever submits: a
// copy may be on its way into the same memory then, which stays where it is for copies of `bytes`.
void CheckpointWriter::State::take_room(size_t bytes) {
  constexpr size_t kAtOnce = 4 << 20;
  constexpr std::chrono::milliseconds kPatience(100);
  const auto memory_of_nobody = [&]() -> std::byte* {
    const std::scoped_lock lock(mutex);
    return claimed || closing || gives_back ? nullptr : copy.buffer.at_least(bytes);
  };
  const auto give_some = [&](size_t i, int) -> Result<void> {
    std::byte* const memory = memory_of_nobody();
    if (memory != nullptr) give_pages(memory + i * kAtOnce, std::min(kAtOnce, bytes - i * kAtOnce));
    return {};
  };
  static_cast<void>(in_background((bytes + kAtOnce - 1) / kAtOnce, 1, give_some, kPatience));
}

bool CheckpointWriter::submit(Manifest manifest, std::span<const ConstTensor> tensors, const CopyBytes& copy_bytes) {
  if (!state_->claim(manifest.step)) return false;
  State::Copy& copy = state_->copy;
  copy.manifest = std::move(manifest);
  copy.tensors.assign(tensors.begin(), tensors.end());
  copy.of = std::nullopt;
  state_->copy_and_write(copy_bytes);
  return true;
}

bool CheckpointWriter::submit(Manifest manifest, PartOf of, std::span<const PieceBytes> pieces, const CopyBytes& copy_bytes) {
  if (!state_->claim(manifest.step)) return false;
  State::Copy& copy = state_->copy;
  copy.manifest = std::move(manifest);
  copy.pieces.assign(pieces.begin(), pieces.end());
  copy.of = of;
  state_->copy_and_write(copy_bytes);
  return true;
}

std::shared_ptr<CopyBeside> CheckpointWriter::submit_beside(Manifest manifest, std::span<const ConstTensor> tensors) {
  if (!state_->claim(manifest.step)) return nullptr;
  State::Copy& copy = state_->copy;
  copy.manifest = std::move(manifest);
  copy.tensors.assign(tensors.begin(), tensors.end());
  copy.of = std::nullopt;
  copy.stall_s = 0;
  auto stretches = move_into(copy.buffer, copy.tensors);
  copy.made = stretches ? Result<void>() : tl::unexpected(stretches.error());
  auto beside = std::make_shared<CopyUnderWay>(stretches ? std::move(*stretches) : std::vector<CopyStretch>());
  copy.beside = beside;
  state_->begin_write();
  return beside;
}

void CheckpointWriter::forget_left_behind() {
  state_->forgets_left_behind = true;
}

void CheckpointWriter::give_back_room() {
  const std::scoped_lock lock(state_->mutex);
  state_->room = 0;
  state_->gives_back = true;
  state_->changed.notify_all();
}

void CheckpointWriter::make_room(size_t bytes) {
  const std::scoped_lock lock(state_->mutex);
  state_->gives_back = false;
  if (state_->claimed) return;
  state_->room = bytes;
  state_->changed.notify_all();
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

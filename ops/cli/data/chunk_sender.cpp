#include "ops/cli/data/chunk_sender.h"

#include <utility>

namespace holdfast::ops {

ChunkSender::ChunkSender(const Options& options) {
  for (int i = 0; i < kConnections; ++i) threads_.emplace_back([this, options] { work(options); });
}

ChunkSender::~ChunkSender() {
  {
    const std::lock_guard lock(mutex_);
    waiting_.clear();
    ending_ = true;
    stop_ = true;
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void ChunkSender::throw_failure() const {
  if (failure_) throw RefusedPush(*failure_);
}

void ChunkSender::send(std::string name, std::string bytes) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return waiting_.size() < kWaitingMax || failure_; });
  throw_failure();
  waiting_.push_back({std::move(name), std::move(bytes)});
  changed_.notify_all();
}

void ChunkSender::finish() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return (waiting_.empty() && busy_ == 0) || failure_; });
  throw_failure();
}

void ChunkSender::work(const Options& options) {
  PatientClient client(options, stop_);
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return ending_ || !waiting_.empty(); });
    if (ending_) return;
    const Chunk chunk = std::move(waiting_.front());
    waiting_.pop_front();
    ++busy_;
    lock.unlock();
    std::optional<RefusedPush> failure;
    try {
      client.request("PUT", "/v1/data/chunks/" + chunk.name, chunk.bytes, "application/octet-stream");
      sent_bytes_ += static_cast<int64_t>(chunk.bytes.size());
    } catch (const RefusedPush& refused) {
      failure = refused;
    }
    lock.lock();
    --busy_;
    if (failure && !failure_) failure_ = failure;
    if (failure_) stop_ = true;
    changed_.notify_all();
  }
}

}  // namespace holdfast::ops

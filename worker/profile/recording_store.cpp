#include "worker/profile/recording_store.h"

#include <utility>

#include "worker/profile/recorder.h"

namespace holdfast::worker {
namespace {

using storage::Bytes;
using storage::Result;

class RecordingStore final : public storage::ObjectStore {
 public:
  explicit RecordingStore(std::unique_ptr<ObjectStore> store) : store_(std::move(store)) {}

  Result<void> put(const std::string& key, std::span<const std::byte> bytes) override {
    name_thread("checkpoint writer");
    const Span span(SpanKind::kCheckpoint, "checkpoint: put an object");
    return store_->put(key, bytes);
  }
  Result<Bytes> get(const std::string& key) override { return store_->get(key); }
  Result<std::vector<std::string>> list(const std::string& prefix) override { return store_->list(prefix); }
  Result<void> remove(const std::string& key) override { return store_->remove(key); }
  Result<std::vector<std::string>> remove_unfinished(std::span<const std::string> spared) override {
    return store_->remove_unfinished(spared);
  }
  std::string describe() const override { return store_->describe(); }

 private:
  std::unique_ptr<ObjectStore> store_;
};

}  // namespace

std::unique_ptr<storage::ObjectStore> with_spans(std::unique_ptr<storage::ObjectStore> store) {
  return std::make_unique<RecordingStore>(std::move(store));
}

}  // namespace holdfast::worker

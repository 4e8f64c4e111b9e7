#include "worker/profile/recording_store.h"

#include "worker/profile/recorder.h"

namespace holdfast::worker {
namespace {

class RecordingStore final : public storage::ForwardingStore {
 public:
  using ForwardingStore::ForwardingStore;

  storage::Result<void> put(const std::string& key, std::span<const std::byte> bytes) override {
    name_thread("checkpoint writer");
    const Span span(SpanKind::kCheckpoint, "checkpoint: put an object");
    return ForwardingStore::put(key, bytes);
  }
};

}  // namespace

std::unique_ptr<storage::ObjectStore> with_spans(std::unique_ptr<storage::ObjectStore> store) {
  return std::make_unique<RecordingStore>(std::move(store));
}

}  // namespace holdfast::worker

#include "worker/drills/fault_store.h"

#include "worker/drills/fault_points.h"

namespace holdfast::worker {
namespace {

class FaultStore final : public storage::ForwardingStore {
 public:
  using ForwardingStore::ForwardingStore;

  storage::Result<void> put(const std::string& key, std::span<const std::byte> bytes) override {
    if (key.starts_with("step-")) fault_point("checkpoint_object", -1, -1);
    return ForwardingStore::put(key, bytes);
  }
};

}  // namespace

std::unique_ptr<storage::ObjectStore> with_fault_points(std::unique_ptr<storage::ObjectStore> store) {
  if (!fault_points_armed()) return store;
  return std::make_unique<FaultStore>(std::move(store));
}

}  // namespace holdfast::worker

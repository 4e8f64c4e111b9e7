// A rank that writes checkpoints to a folder on a disk that fails as a test says, beside a service that can be away.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "tests/worker/step/ranks_of_threads.h"

namespace holdfast::worker {

// The faults of a disk.
struct Ailment {
  std::atomic<bool> broken = false;       // puts fail
  std::atomic<bool> unremovable = false;  // removes fail
  std::atomic<bool> stalled = false;      // puts take as long as this is set
  std::atomic<int> refusals = 0;          // puts that failed
};

// A folder on such a disk.
class FlakyStore : public storage::ForwardingStore {
 public:
  FlakyStore(std::unique_ptr<ObjectStore> inner, std::shared_ptr<Ailment> disk)
      : ForwardingStore(std::move(inner)), disk_(std::move(disk)) {}
  storage::Result<void> put(const std::string& key, std::span<const std::byte> bytes) override {
    disk_->stalled.wait(true);
    if (disk_->broken) {
      ++disk_->refusals;
      return tl::unexpected(storage::Error{storage::Error::Code::kUnavailable, key + ": no space left on device"});
    }
    return ForwardingStore::put(key, bytes);
  }
  storage::Result<void> remove(const std::string& key) override {
    if (disk_->unremovable)
      return tl::unexpected(storage::Error{storage::Error::Code::kUnavailable, "cannot remove " + key + ": read-only"});
    return ForwardingStore::remove(key);
  }

 private:
  std::shared_ptr<Ailment> disk_;
};

class CheckpointsOfARank : public ::testing::Test {
 protected:
  void make(int64_t keep_last, const std::string& shard = "none") {
    spec = tiny_spec(data);
    spec.keep_last = keep_last;
    spec.shard = shard;
    rank = std::make_unique<TestRank>(spec, service.url(), "w1");
    reset_to_initial(*rank->session);
    auto inner = storage::open_directory_store(data.path("flaky"));
    auto store = std::make_unique<FlakyStore>(std::move(*inner), disk);
    directory = std::move(*storage::open_directory_store(data.path("flaky")));
    rank->checkpoints.reset();  // one at a time
    rank->checkpoints = std::make_unique<Checkpointing>(CheckpointSetup{.link = rank->link,
                                                                        .outbox = rank->outbox,
                                                                        .reporter = rank->reporter,
                                                                        .session = *rank->session,
                                                                        .store = std::move(store),
                                                                        .store_name = spec.checkpoint_store,
                                                                        .probe_patience = std::chrono::milliseconds(0)});
    rank->checkpoints->enter_generation(1, 0, 0);
  }
  std::string write(int64_t step) {
    rank->session->state->step = step;
    const auto hash = rank->checkpoints->write_now(state_of(*rank->session), rank->interrupt);
    EXPECT_TRUE(hash) << hash.error().reason;
    return hash.value_or("");
  }
  static std::set<int64_t> removed_by(const auto& records) {
    std::set<int64_t> steps;
    for (const auto& record : records)
      for (const int64_t step : record.value("removed_steps", nlohmann::json::array())) steps.insert(step);
    return steps;
  }
  std::set<int64_t> said_to_be_removed() { return removed_by(service.received("/checkpoints")); }
  std::vector<int64_t> there() { return storage::list_checkpoints(*directory).value(); }

  TestData data;
  FakeService service;
  rendezvous::JobSpec spec;
  std::shared_ptr<Ailment> disk = std::make_shared<Ailment>();
  std::unique_ptr<storage::ObjectStore> directory;  // the same folder, seen from outside
  std::unique_ptr<TestRank> rank;
};

}  // namespace holdfast::worker

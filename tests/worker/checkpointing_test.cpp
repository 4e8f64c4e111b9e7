// Checkpoints from the rank that writes them, with a store that can fail and a service that can be away.
#include "worker/checkpointing.h"

#include <gtest/gtest.h>

#include <atomic>

#include "tests/worker/ranks_of_threads.h"

namespace holdfast::worker {
namespace {

// A folder whose puts can be made to fail.
class FlakyStore : public storage::ObjectStore {
 public:
  FlakyStore(std::unique_ptr<ObjectStore> inner, std::shared_ptr<std::atomic<bool>> broken)
      : inner_(std::move(inner)), broken_(std::move(broken)) {}
  storage::Result<void> put(const std::string& key, std::span<const std::byte> bytes) override {
    if (*broken_) return tl::unexpected(storage::Error{storage::Error::Code::kUnavailable, key + ": no space left on device"});
    return inner_->put(key, bytes);
  }
  storage::Result<storage::Bytes> get(const std::string& key) override { return inner_->get(key); }
  storage::Result<std::vector<std::string>> list(const std::string& prefix) override { return inner_->list(prefix); }
  storage::Result<void> remove(const std::string& key) override { return inner_->remove(key); }
  storage::Result<std::vector<std::string>> remove_unfinished(std::span<const std::string> spared) override {
    return inner_->remove_unfinished(spared);
  }
  std::string describe() const override { return inner_->describe(); }

 private:
  std::unique_ptr<ObjectStore> inner_;
  std::shared_ptr<std::atomic<bool>> broken_;
};

class CheckpointsOfARank : public ::testing::Test {
 protected:
  void make(int64_t keep_last) {
    spec = tiny_spec(data);
    spec.keep_last = keep_last;
    rank = std::make_unique<TestRank>(spec, service.url(), "w1");
    reset_to_initial(*rank->session);
    auto inner = storage::open_directory_store(data.path("flaky"));
    auto store = std::make_unique<FlakyStore>(std::move(*inner), broken);
    directory = std::move(*storage::open_directory_store(data.path("flaky")));
    rank->checkpoints = std::make_unique<Checkpointing>(rank->link, rank->outbox, rank->reporter, *rank->session,
                                                        std::move(store), spec.checkpoint_store);
    rank->checkpoints->enter_generation(1, 0, 0);
  }
  std::string write(int64_t step) {
    rank->session->state->step = step;
    const auto hash = rank->checkpoints->write_now(*rank->session, rank->interrupt);
    EXPECT_TRUE(hash) << hash.error().reason;
    return hash.value_or("");
  }
  std::vector<int64_t> there() { return storage::list_checkpoints(*directory).value(); }

  TestData data;
  FakeService service;
  rendezvous::JobSpec spec;
  std::shared_ptr<std::atomic<bool>> broken = std::make_shared<std::atomic<bool>>(false);
  std::unique_ptr<storage::ObjectStore> directory;  // the same folder, seen from outside
  std::unique_ptr<TestRank> rank;
};

TEST_F(CheckpointsOfARank, AreDurableAndRegisteredWithTheHashOfTheState) {
  make(0);
  EXPECT_EQ(write(6), rank->session->state->hash());
  const auto record = service.received("/checkpoints").back();
  EXPECT_EQ(record["step"], 6);
  EXPECT_EQ(record["store"], spec.checkpoint_store);
  EXPECT_EQ(record["generation"], 1);
  EXPECT_TRUE(storage::verify_checkpoint(*directory, 6));
}

TEST_F(CheckpointsOfARank, AreRegisteredOnceTheServiceKnowsTheStepsBefore) {
  make(0);
  // The service is still asked while the rank is taken down, after this function.
  const auto refusals = std::make_shared<std::atomic<int>>(0);
  const auto registered_early = std::make_shared<std::atomic<bool>>(false);
  service.answer_with(
      [refusals, registered_early](const rendezvous::HttpRequest& request) -> std::optional<rendezvous::HttpResponse> {
        if (request.path.ends_with("/checkpoints") && *refusals < 3) *registered_early = true;
        if (!request.path.ends_with("/progress") || *refusals == 3) return std::nullopt;
        ++*refusals;
        return FakeService::problem(503, "busy");
      });
  rendezvous::StepPoint point;
  point.step = 6;
  rank->reporter.committed(point);
  rank->reporter.begin(rank->session->job, 1, true);
  write(6);
  EXPECT_EQ(*refusals, 3);
  EXPECT_FALSE(*registered_early);
}

TEST_F(CheckpointsOfARank, KeepTheNewestFewAndTellTheServiceWhatWentAway) {
  make(2);
  for (const int64_t step : {10, 20, 30, 40}) write(step);
  ASSERT_TRUE(service.wait_for("/checkpoints", [](const auto& all) {
    return !all.empty() && all.back()["removed_steps"] == nlohmann::json::array({20});
  }));
  EXPECT_EQ(there(), (std::vector<int64_t>{30, 40}));
}

TEST_F(CheckpointsOfARank, AreRegisteredOnceTheServiceIsBack) {
  make(0);
  service.go_away();
  std::jthread service_thread([&] {
    while (there().empty()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    service.come_back();
  });
  write(3);
  EXPECT_EQ(service.received("/checkpoints").back()["step"], 3);
}

TEST_F(CheckpointsOfARank, AreRegisteredUnderTheGenerationOfTheDay) {
  make(0);
  service.answer_with([](const rendezvous::HttpRequest& request) -> std::optional<rendezvous::HttpResponse> {
    if (request.path.ends_with("/checkpoints") && nlohmann::json::parse(request.body)["generation"] == 1) {
      return FakeService::problem(409, "stale_generation");
    }
    return std::nullopt;
  });
  rank->session->state->step = 5;
  rank->checkpoints->start(*rank->session);
  ASSERT_TRUE(service.wait_for("/checkpoints", 1));
  rank->checkpoints->enter_generation(2, 1, 100);
  EXPECT_TRUE(service.wait_for("/checkpoints", [](const auto& all) { return all.back()["generation"] == 2; }));
}

TEST_F(CheckpointsOfARank, AreNotRegisteredOnceTheJobWentBackBehindThem) {
  make(0);
  service.answer_with([](const rendezvous::HttpRequest& request) -> std::optional<rendezvous::HttpResponse> {
    if (request.path.ends_with("/checkpoints") && nlohmann::json::parse(request.body)["generation"] == 1)
      return FakeService::problem(409, "stale_generation");
    return std::nullopt;
  });
  rank->session->state->step = 5;
  rank->checkpoints->start(*rank->session);
  ASSERT_TRUE(service.wait_for("/checkpoints", 1));
  rank->checkpoints->enter_generation(2, 0, 3);  // from the state of step 3: 4 and 5 were voided
  write(6);
  for (const auto& record : service.received("/checkpoints")) {
    if (record["generation"] == 2) {
      EXPECT_EQ(record["step"], 6);
    }
  }
}

TEST_F(CheckpointsOfARank, AFullDiskIsAnEventAndTheNextCheckpointIsWrittenWhenThereIsRoom) {
  make(0);
  *broken = true;
  rank->session->state->step = 5;
  rank->checkpoints->start(*rank->session);
  ASSERT_TRUE(service.wait_for("/events", 1));
  const auto event = service.received("/events").front();
  EXPECT_EQ(event["kind"], "checkpoint_failed");
  EXPECT_NE(event["message"].get<std::string>().find("no space left"), std::string::npos) << event;
  EXPECT_TRUE(service.received("/checkpoints").empty());
  *broken = false;
  write(6);
  EXPECT_EQ(there(), (std::vector<int64_t>{6}));
}

TEST_F(CheckpointsOfARank, AnInterruptEndsTheWaitForOne) {
  make(0);
  *broken = true;
  std::jthread fence([&] {
    EXPECT_TRUE(service.wait_for("/events", 1));
    rank->interrupt.raise("fenced");
  });
  rank->session->state->step = 5;
  const auto hash = rank->checkpoints->write_now(*rank->session, rank->interrupt);
  ASSERT_FALSE(hash);
  EXPECT_EQ(hash.error().why, RunStop::Why::kInterrupted);
}

TEST_F(CheckpointsOfARank, LeftoversOfACrashedWriterGoAwayButNotAtOnce) {
  make(0);
  const std::byte torn[3] = {};
  ASSERT_TRUE(directory->put("step-0000000002/shard-0000-00000000000000000000000000000000.hfs", torn));
  const auto leftovers = [&] { return directory->list("step-0000000002/").value().size(); };
  write(5);
  EXPECT_EQ(leftovers(), 1U);
  write(6);
  rank->checkpoints.reset();  // waits for what it is doing
  EXPECT_EQ(leftovers(), 0U);
}

}  // namespace
}  // namespace holdfast::worker

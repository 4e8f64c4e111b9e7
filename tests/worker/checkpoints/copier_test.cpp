// Copies of checkpoints in a second place, whose first place is damaged, or which was away for long.
#include "worker/checkpoints/copier.h"

#include <gtest/gtest.h>

#include <atomic>

#include "tests/storage/checks.h"
#include "tests/worker/link/fake_service.h"
#include "tests/worker/step/ranks_of_threads.h"

namespace holdfast::worker {
namespace {

using storage::testing::manifest_at;
using storage::testing::State;

class CopierTest : public ::testing::Test {
 protected:
  auto opener(const std::string& name) {
    return [this, name](const std::atomic<bool>*) -> storage::Result<std::unique_ptr<storage::ObjectStore>> {
      ++opened_;
      if (name == "second" && is_away_) return tl::unexpected(storage::Error{storage::Error::Code::kUnavailable, "it is away"});
      return storage::open_directory_store(data_.path(name));
    };
  }
  std::unique_ptr<storage::ObjectStore> open(const std::string& name) {
    return std::move(*storage::open_directory_store(data_.path(name)));
  }
  std::unique_ptr<Copier> copier() {
    return std::make_unique<Copier>(CopySetup{.link = rank_.link,
                                              .outbox = rank_.outbox,
                                              .job = "j1",
                                              .place = "second",
                                              .open_first = opener("first"),
                                              .open_second = opener("second"),
                                              .first_pause = std::chrono::milliseconds(2)});
  }
  static bool is_done(const Copier& copier) {
    const auto until = std::chrono::steady_clock::now() + std::chrono::minutes(1);
    while (!copier.is_done() && std::chrono::steady_clock::now() < until) std::this_thread::yield();
    return copier.is_done();
  }
  bool was_told(const std::string& words) {
    return service_.wait_for("/events", [&](const FakeService::Received& events) {
      return std::ranges::any_of(events, [&](const auto& event) { return event.dump().find(words) != std::string::npos; });
    });
  }

  TestData data_;
  FakeService service_;
  TestRank rank_{tiny_spec(data_), service_.url(), "w1"};
  std::atomic<bool> is_away_ = false;
  std::atomic<int> opened_ = 0;
};

TEST_F(CopierTest, ACheckpointWithoutOneOfItsShardsIsToldOfAndGivenUp) {
  const auto written = storage::write_checkpoint(*open("first"), manifest_at(10), State(1).tensors(), {.shard_bytes = 4000});
  ASSERT_TRUE(written) << written.error().message;
  ASSERT_TRUE(open("first")->remove(written->shards[1].key));
  const auto copies = copier();
  copies->look(true);
  EXPECT_TRUE(was_told("checkpoint_copy_failed"));
  copies->finish();
  EXPECT_TRUE(is_done(*copies));
  EXPECT_TRUE(was_told("is not tried again here"));
}

TEST_F(CopierTest, TheLastCheckpointIsCopiedToAPlaceThatWasAwayForLong) {
  is_away_ = true;
  const auto copies = copier();
  copies->look(true);
  while (opened_ < 6) std::this_thread::yield();  // the first place once, the second more often than is tried at the end
  const auto written = storage::write_checkpoint(*open("first"), manifest_at(10), State(1).tensors(), {});
  ASSERT_TRUE(written) << written.error().message;
  is_away_ = false;
  copies->look(true);
  copies->finish();
  EXPECT_TRUE(is_done(*copies));
  EXPECT_TRUE(storage::testing::is_listed(*open("second"), 10));
}

}  // namespace
}  // namespace holdfast::worker

// Parts of a divided state whose store refuses them when the job is to stop after their step: they are tried again.
#include <gtest/gtest.h>

#include "tests/worker/step/same_bits_fixture.h"

namespace holdfast::worker {
namespace {

// A store that is full when it is written to first.
class StoreThatIsFullAtFirst : public storage::ForwardingStore {
 public:
  using ForwardingStore::ForwardingStore;
  storage::Result<void> put(const std::string& name, std::span<const std::byte> bytes) override {
    if (!was_full_.exchange(true)) return tl::unexpected(storage::Error{storage::Error::Code::kNoSpace, "the disk is full"});
    return ForwardingStore::put(name, bytes);
  }

 private:
  std::atomic<bool> was_full_ = false;
};

class PartsAgain : public SameBits {};

TEST_F(PartsAgain, OfTheStepAfterWhichTheJobIsPaused) {
  rendezvous::JobSpec spec = tiny_spec(data);
  spec.shard = "optimizer";
  spec.checkpoint_every = 4;
  Ranks ranks(spec, service, 2);
  for (size_t number = 0; number < ranks.size(); ++number) {
    TestRank& rank = ranks[number];
    rank.checkpoints.reset();
    auto store =
        std::make_unique<StoreThatIsFullAtFirst>(std::move(*storage::open_directory_store(spec.checkpoint_store + "/j1")));
    rank.checkpoints = std::make_unique<Checkpointing>(CheckpointSetup{.link = rank.link,
                                                                       .outbox = rank.outbox,
                                                                       .reporter = rank.reporter,
                                                                       .session = *rank.session,
                                                                       .store = std::move(store),
                                                                       .store_name = spec.checkpoint_store});
  }
  ranks.on_commit = [&](TestRank& rank, size_t, int64_t step) {
    if (step == 3) rank.requests.checkpoint = rank.requests.yield = true;  // the ranks agree in step 4
  };
  std::jthread watch([&] {
    if (!service.wait_for("/checkpoints", [](const auto& all) { return !all.empty(); }))
      ranks.interrupt_all("no checkpoint was registered");
  });
  for (const RunStop& stop : ranks.run(Ranks::initial())) EXPECT_EQ(stop.why, RunStop::Why::kYielded) << stop.reason;
  EXPECT_TRUE(storage::verify_checkpoint(*storage::open_directory_store(spec.checkpoint_store + "/j1").value(), 4));
}

}  // namespace
}  // namespace holdfast::worker

// Writes that fail are told of and tried again, also where the job waits for them, or the service is away, or parts of them
// went to another folder.
#include <gtest/gtest.h>

#include "storage/checkpoint_parts.h"
#include "tests/worker/checkpoints/checkpoints_of_a_rank.h"
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

// A part of a state that two ranks have, by a rank that learns that the other one's store, or its own, is another folder.
class PartsElsewhere : public CheckpointsOfARank {
 protected:
  PartsElsewhere() { make(0, "optimizer"); }
  StateToWrite part(int64_t step, int64_t writer) {
    rank->session->state->step = step;
    std::vector<bool> writes;
    for (const auto& piece : rank->session->state->pieces()) writes.push_back(piece.data != nullptr);
    return part_of(*rank->session, {.writer = writer, .writers = 2}, "5ec2e7", writes);
  }
  void find_elsewhere() { rank->checkpoints->others_are_elsewhere("rank 1 is elsewhere"); }
  void find_right() { rank->checkpoints->others_are_elsewhere(""); }
  void stall(bool stalled) {
    disk->stalled = stalled;
    disk->stalled.notify_all();
  }
  bool is_there(int64_t step) { return directory->get(storage::part_key(step, 2, 1)).has_value(); }
  void take_away(int64_t step) { EXPECT_TRUE(directory->remove(storage::part_key(step, 2, 1))); }
};

TEST_F(PartsElsewhere, AreNotWaitedForAlsoWhereTheFolderIsRightBeforeRankZeroHasWrittenItsOwn) {
  const auto is_given_up = [](const auto& events) {
    return std::ranges::any_of(events, [](const auto& event) {
      const std::string message = event["message"];
      return message.starts_with("no checkpoint at step 2: the part of rank 1 is not in") &&
             message.ends_with("and after it began it was found that rank 1 is elsewhere");
    });
  };
  stall(true);
  rank->checkpoints->start(part(2, 0));
  find_elsewhere();
  find_right();
  stall(false);
  EXPECT_TRUE(service.wait_for("/events", is_given_up));
}

TEST_F(PartsElsewhere, AreWrittenAnewWhereTheJobWaitsForTheirStep) {
  rank->checkpoints->enter_generation(2, 1, 0);
  const auto write = [&](int64_t step) {
    EXPECT_TRUE(rank->checkpoints->write_now(part(step, 1), rank->interrupt));
    EXPECT_TRUE(is_there(step));
  };
  write(2);
  take_away(2);
  find_elsewhere();
  find_right();
  write(2);

  stall(true);
  EXPECT_TRUE(rank->checkpoints->hand_in(part(4, 1), rank->interrupt));
  find_elsewhere();
  find_right();
  stall(false);
  for (const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
       !is_there(4) && std::chrono::steady_clock::now() < end;)
    std::this_thread::yield();
  take_away(4);
  write(4);
}

TEST_F(PartsElsewhere, AreToldOfUntilTheOtherRanksKnowAlsoWhereTheRingBrokeOnTheWay) {
  const auto wait_for = [&](const std::string& kind) {
    const auto is_it = [&](const auto& event) { return event["kind"] == kind; };
    EXPECT_TRUE(service.wait_for("/events", [&](const auto& all) { return std::ranges::any_of(all, is_it); })) << kind;
  };
  const std::vector<std::string> members = {"i-w0", "i-w1"};
  Checkpointing& checkpoints = *rank->checkpoints;
  const auto ask = [&] { return checkpoints.reserve(4, AskedFor::kOneOfMany); };
  checkpoints.enter_generation(2, 1, 0, members);
  EXPECT_TRUE(checkpoints.write_now(part(2, 1), rank->interrupt));
  checkpoints.look_at_store("w0", "node1");
  wait_for("checkpoint_store_not_shared");
  StoreProbe first(*directory, [](const std::string&, const std::string&) {});
  first.begin({2, 0, "w0", "i-w0", "node0"});
  wait_for("checkpoint_store_shared");
  EXPECT_EQ(ask(), Readiness::kElsewhere);
  checkpoints.enter_generation(3, 1, 2, members);  // the ring broke before others' answers came
  EXPECT_EQ(ask(), Readiness::kElsewhere);
  checkpoints.have_answered(Readiness::kElsewhere);
  EXPECT_EQ(ask(), Readiness::kReady);
  checkpoints.enter_generation(4, 1, 2, members);  // it broke when they had come here and not everywhere
  EXPECT_EQ(ask(), Readiness::kElsewhere);
  for (const Readiness mine : {Readiness::kElsewhere, Readiness::kReady}) checkpoints.have_answered(mine);
  checkpoints.enter_generation(5, 1, 2, members);
  EXPECT_EQ(ask(), Readiness::kReady) << "all know it";
}

TEST_F(CheckpointsOfARank, AreTriedAgainWhileTheRegistrationOfAnOlderOneWaitsForTheService) {
  make(0);
  service.go_away();
  rank->session->state->step = 10;
  rank->checkpoints->start(state_of(*rank->session));
  while (there().empty()) std::this_thread::yield();
  disk->broken = true;
  std::jthread disk_and_service([&] {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    while (disk->refusals == 0) std::this_thread::yield();
    disk->broken = false;
    while (there().size() < 2 && std::chrono::steady_clock::now() < end)
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    rank->interrupt.raise("it is there, or never comes");
  });
  rank->session->state->step = 15;
  EXPECT_FALSE(rank->checkpoints->write_now(state_of(*rank->session), rank->interrupt)) << "registered by whom?";
  EXPECT_EQ(there(), (std::vector<int64_t>{10, 15}));
}

TEST_F(CheckpointsOfARank, KeepWhatOthersHaveWrittenOfOneThatFailedHere) {
  make(0);
  write(1);
  service.go_away();
  rank->session->state->step = 2;
  rank->checkpoints->start(state_of(*rank->session));
  while (there().size() < 2) std::this_thread::yield();
  disk->broken = true;
  rank->session->state->step = 3;
  while (disk->refusals == 0) rank->checkpoints->start(state_of(*rank->session));
  const std::string others = "step-0000000003/of-another-rank", crashed = "step-0000000099/of-a-crashed-writer";
  for (const std::string& key : {others, crashed}) ASSERT_TRUE(directory->put(key, {}));
  service.come_back();  // now files of writers that crashed go away
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (directory->get(crashed) && std::chrono::steady_clock::now() < end) std::this_thread::yield();
  EXPECT_FALSE(directory->get(crashed));
  EXPECT_TRUE(directory->get(others));
}

TEST_F(CheckpointsOfARank, AreWaitedForByNobodyAfterAnInterruptWhichEndsTheWait) {
  make(0);
  disk->broken = true;
  std::jthread fence([&] {
    EXPECT_TRUE(service.wait_for("/events", 1));
    rank->interrupt.raise("fenced");
  });
  rank->session->state->step = 5;
  const auto hash = rank->checkpoints->write_now(state_of(*rank->session), rank->interrupt);
  ASSERT_FALSE(hash);
  EXPECT_EQ(hash.error().why, RunStop::Why::kInterrupted);
  ASSERT_TRUE(service.wait_for("/events", 2));
  const auto again = service.received("/events")[1]["message"].get<std::string>();
  EXPECT_NE(again.find("the checkpoint of step 5 could not be written, training goes on"), std::string::npos) << again;
}

}  // namespace
}  // namespace holdfast::worker

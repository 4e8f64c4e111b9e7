// Ranks of a divided state whose checkpoint store is another folder than the others': found beside training, said by name, and
// found again when it is put right. Real folders.
#include "worker/checkpoints/store_probe.h"

#include <gmock/gmock.h>

#include <filesystem>

#include "tests/worker/step/same_bits_fixture.h"

namespace holdfast::worker {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;
using std::chrono::steady_clock;
using testing::HasSubstr;
using testing::Not;

using Json = nlohmann::json;

std::unique_ptr<storage::ObjectStore> folder_store(const std::string& path) {
  return std::move(*storage::open_directory_store(path));
}

// The events that a probe tells.
class Told {
 public:
  StoreProbe::Tell tell() {
    return [this](const std::string& kind, const std::string& text) {
      const std::lock_guard lock(mutex_);
      events_.push_back(kind + ": " + text);
      changed_.notify_all();
    };
  }
  std::string wait_for(size_t number) {
    std::unique_lock lock(mutex_);
    const bool there = changed_.wait_for(lock, std::chrono::seconds(20), [&] { return events_.size() >= number; });
    return there ? events_[number - 1] : "nothing";
  }
  size_t count() {
    const std::lock_guard lock(mutex_);
    return events_.size();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::string> events_;
};

// A store that is away.
class StoreThatIsAway : public storage::ForwardingStore {
 public:
  StoreThatIsAway(std::unique_ptr<ObjectStore> inner, std::atomic<int>& asked)
      : ForwardingStore(std::move(inner)), asked_(asked) {}
  storage::Result<storage::Bytes> get(const std::string&) override {
    ++asked_;
    asked_.notify_all();
    return tl::unexpected(storage::Error{storage::Error::Code::kUnavailable, "the volume is away"});
  }

 private:
  std::atomic<int>& asked_;
};

StoreProbe::Generation generation(int64_t number, int rank) {
  return {number, rank, "w1", "i-w1", "node" + std::to_string(rank)};
}

void wait_until_there(storage::ObjectStore& store, const std::string& prefix, size_t number) {
  while (store.list(prefix).value().size() != number) std::this_thread::yield();
}

TEST(StoreProbe, SaysByNameThatTheFolderIsAnotherAndThatItIsRight) {
  const TestData data;
  const auto shared = folder_store(data.path("shared")), other = folder_store(data.path("other"));
  Told first_told, told;
  StoreProbe first(*shared, first_told.tell());
  StoreProbe third(*other, told.tell(), milliseconds(0));
  first.begin(generation(3, 0));
  third.begin(generation(3, 2));
  EXPECT_THAT(told.wait_for(1), testing::AllOf(HasSubstr("checkpoint_store_not_shared: rank 2 on node node2 does not find in"),
                                               HasSubstr(data.path("other")), HasSubstr("what rank 0, w1, has put there"),
                                               HasSubstr("Mount the same one on both")));
  EXPECT_TRUE(third.is_elsewhere());
  fs::rename(data.path("other"), data.path("gone"));
  fs::create_directory_symlink(data.path("shared"), data.path("other"));
  EXPECT_THAT(told.wait_for(2), HasSubstr("checkpoint_store_shared: rank 2 on node node2 finds in"));
  EXPECT_FALSE(third.is_elsewhere());
  EXPECT_TRUE(third.was_elsewhere()) << "what was written in between is not there";
  EXPECT_FALSE(third.was_elsewhere()) << "it is told once";
  EXPECT_EQ(first_told.count(), 0U);
}

TEST(StoreProbe, FindsAlsoWhatRankZeroPutsIntoTheRightFolderAfterwards) {
  const TestData data;
  const auto shared = folder_store(data.path("shared")), other = folder_store(data.path("other"));
  Told told;
  StoreProbe first(*other, told.tell()), second(*shared, told.tell(), milliseconds(0));
  first.begin(generation(3, 0));
  second.begin(generation(3, 1));
  EXPECT_THAT(told.wait_for(1), HasSubstr("checkpoint_store_not_shared: rank 1"));
  fs::rename(data.path("other"), data.path("gone"));
  fs::create_directory_symlink(data.path("shared"), data.path("other"));
  EXPECT_THAT(told.wait_for(2), HasSubstr("checkpoint_store_shared: rank 1"));
}

TEST(StoreProbe, FindsTheMarkOfItsOwnGenerationAlone) {
  const TestData data;
  const auto store = folder_store(data.path("shared"));
  Told told;
  {
    StoreProbe first(*store, told.tell());
    first.begin(generation(3, 0));
    wait_until_there(*store, "probe/0000000003-0", 1);
    first.begin(generation(4, 0));
    wait_until_there(*store, "probe/0000000004-0", 1);
    wait_until_there(*store, "probe/", 1);
    StoreProbe of_before(*store, told.tell(), milliseconds(0));
    of_before.begin(generation(3, 1));
    EXPECT_THAT(told.wait_for(1), HasSubstr("checkpoint_store_not_shared"));
    of_before.begin(generation(4, 1));
    EXPECT_FALSE(of_before.is_elsewhere()) << "of the new generation nothing is known yet";
  }
  EXPECT_EQ(told.count(), 1U) << "what began anew says nothing of the generation before";
  EXPECT_TRUE(store->list("").value().empty()) << "marks go away";
}

TEST(StoreProbe, CallsAStoreThatIsAwayNoOther) {
  const TestData data;
  std::atomic<int> asked = 0;
  StoreThatIsAway store(folder_store(data.path("away")), asked);
  Told told;
  StoreProbe probe(store, told.tell(), milliseconds(0));
  probe.begin(generation(3, 1));
  for (int seen = asked; seen < 4; seen = asked) asked.wait(seen);
  EXPECT_THAT(told.wait_for(1), testing::AllOf(HasSubstr("checkpoint_failed: rank 1 on node node1 cannot look in"),
                                               HasSubstr("the volume is away")));
  EXPECT_FALSE(probe.is_elsewhere());
  EXPECT_FALSE(probe.is_settled());
}

TEST(StoreProbe, SaysThatRankZeroCannotWrite) {
  const TestData data;
  class Full : public storage::ForwardingStore {
   public:
    using ForwardingStore::ForwardingStore;
    storage::Result<void> put(const std::string&, std::span<const std::byte>) override {
      return tl::unexpected(storage::Error{storage::Error::Code::kNoSpace, "no space left on device"});
    }
  } store(folder_store(data.path("full")));
  Told told;
  StoreProbe first(store, told.tell(), milliseconds(0));
  first.begin(generation(3, 0));
  EXPECT_THAT(told.wait_for(1), testing::AllOf(HasSubstr("checkpoint_failed: rank 0, w1, cannot write into"),
                                               HasSubstr("no space left on device")));
}

// Three ranks, of which the third writes to a folder of its own.
class RanksWithTwoFolders : public SameBits {
 protected:
  RanksWithTwoFolders() {
    spec = tiny_spec(data);
    spec.shard = "optimizer";
    spec.checkpoint_every = 2;
  }
  void begin(milliseconds patience) {
    ranks = std::make_unique<Ranks>(spec, service, 3);
    ranks->look_at_stores = true;
    TestRank& third = (*ranks)[2];
    third.checkpoints.reset();
    third.checkpoints = std::make_unique<Checkpointing>(CheckpointSetup{.link = third.link,
                                                                        .outbox = third.outbox,
                                                                        .reporter = third.reporter,
                                                                        .session = *third.session,
                                                                        .store = folder_store(data.path("other")),
                                                                        .store_name = spec.checkpoint_store,
                                                                        .probe_patience = patience});
  }
  // The message of the first such event.
  std::string said(const std::string& kind, const std::string& part) {
    const auto is_it = [&](const Json& event) {
      return event["kind"] == kind && event["message"].get<std::string>().find(part) != std::string::npos;
    };
    const bool there = service.wait_for("/events", [&](const auto& all) { return std::ranges::any_of(all, is_it); });
    if (!there) return "nothing";
    const auto events = service.received("/events");
    return (*std::ranges::find_if(events, is_it))["message"];
  }

  rendezvous::JobSpec spec;
  std::unique_ptr<Ranks> ranks;
};

TEST_F(RanksWithTwoFolders, TrainOnWithoutCheckpointsAndTheEndWaitsUntilTheFolderIsRight) {
  rendezvous::JobSpec alone = tiny_spec(data);
  alone.checkpoint_store = data.path("alone");
  const std::string whole = undisturbed(alone, 1);
  begin(milliseconds(0));
  ranks->older_parts_patience = milliseconds(0);  // of ranks that all leave
  ranks->on_commit = [&](TestRank&, size_t number, int64_t step) {
    if (number != 2 || step != 3) return;
    EXPECT_THAT(said("checkpoint_store_not_shared", "rank 2"), HasSubstr("what rank 0, w1, has put"));
  };
  std::jthread administrator([&] {
    EXPECT_THAT(said("checkpoint_skipped", "no checkpoint at step 4"),
                HasSubstr("step 4: rank 2 cannot find what rank 0 puts into the checkpoint store: it is another folder there"));
    EXPECT_THAT(said("checkpoint_failed", "for which the job waits"), HasSubstr("step 20"));
    EXPECT_NE(said("checkpoint_skipped", "no checkpoint at step 2:"), "nothing") << "else it may become whole yet";
    fs::rename(data.path("other"), data.path("gone"));
    fs::create_directory_symlink(spec.checkpoint_store + "/j1", data.path("other"));
  });
  run_to_end(*ranks, Ranks::initial());
  const auto store = folder_store(spec.checkpoint_store + "/j1");
  EXPECT_EQ(storage::list_checkpoints(*store).value(), (std::vector<int64_t>{20}));
  ASSERT_TRUE(storage::verify_checkpoint(*store, 20));
  EXPECT_EQ(storage::read_manifest(*store, 20)->state_hash, whole);
}

TEST_F(RanksWithTwoFolders, WriteNoPartsBeforeItIsKnownWhereAJobEndsBeforeThat) {
  spec.total_steps = 2;
  spec.warmup_steps = 1;
  begin(std::chrono::seconds(1));
  std::jthread administrator([&] {
    if (said("checkpoint_failed", "for which the job waits") == "nothing") ranks->interrupt_all("a part is missing for ever");
    fs::rename(data.path("other"), data.path("gone"));
    fs::create_directory_symlink(spec.checkpoint_store + "/j1", data.path("other"));
  });
  run_to_end(*ranks, Ranks::initial());
  EXPECT_TRUE(storage::verify_checkpoint(*folder_store(spec.checkpoint_store + "/j1"), 2));
  EXPECT_THAT(folder_store(data.path("gone"))->list("").value(), testing::Each(testing::StartsWith("probe/")));
}

TEST_F(RanksWithTwoFolders, AreReadyForAJobsLastCheckpointWhenTheyKnowWhoseFolderTheyHave) {
  begin(std::chrono::hours(1));
  Checkpointing& checkpoints = *(*ranks)[2].checkpoints;
  checkpoints.enter_generation(1, 2, 0, {"i-w1", "i-w2", "i-w3"});
  checkpoints.look_at_store("w1", "node2");
  EXPECT_EQ(checkpoints.reserve(2, AskedFor::kOneOfMany), Readiness::kReady);
  checkpoints.forget_reservation();
  EXPECT_EQ(checkpoints.reserve(2, AskedFor::kLast), Readiness::kLooking);
  const auto folder = folder_store(data.path("other"));
  StoreProbe first(*folder, [](const std::string&, const std::string&) {});
  first.begin(generation(1, 0));
  const auto end = steady_clock::now() + std::chrono::seconds(60);
  while (checkpoints.reserve(2, AskedFor::kLast) != Readiness::kReady && steady_clock::now() < end) std::this_thread::yield();
  EXPECT_EQ(checkpoints.reserve(2, AskedFor::kLast), Readiness::kReady);
}

TEST_F(RanksWithTwoFolders, LeaveAllTogetherWithoutALastCheckpointWhenTheyHaveWaitedForTheFolder) {
  begin(milliseconds(0));
  ranks->older_parts_patience = milliseconds(200);
  ranks->on_commit = [&](TestRank& rank, size_t number, int64_t step) {
    if (number == 2 && step == 3) said("checkpoint_store_not_shared", "rank 2");
    if (step != 5) return;
    rank.requests.checkpoint = rank.requests.yield = true;  // as when the job is paused
    if (number == 1) rank.requests.leaving = true;
  };
  std::jthread administrator([&] {
    said("checkpoint_failed", "for which the job waits");
    std::this_thread::sleep_for(3 * ranks->older_parts_patience);
    for (const auto& event : service.received("/events"))
      EXPECT_THAT(event["message"], Not(HasSubstr("the last one"))) << "one of them leaves, the others wait";
    for (size_t number = 0; number < ranks->size(); ++number) (*ranks)[number].requests.leaving = true;
    if (said("checkpoint_failed", "the last one") == "nothing") ranks->interrupt_all("they never give up");
  });
  for (const RunStop& stop : ranks->run(Ranks::initial())) EXPECT_EQ(stop.why, RunStop::Why::kYielded) << stop.reason;
  EXPECT_THAT(said("checkpoint_failed", "the last one"),
              HasSubstr("could not begin in time: rank 2 cannot find what rank 0 puts into the checkpoint store"));
}

TEST_F(RanksWithTwoFolders, AreToldWhosePartIsMissingWhereTheFolderIsNotKnownToBeAnother) {
  const std::string missing = "that of step 2 lacks the part of rank 2";
  begin(std::chrono::hours(1));
  ranks->on_commit = [&](TestRank& rank, size_t number, int64_t step) {
    const auto end = steady_clock::now() + std::chrono::seconds(20);
    while (number == 0 && step == 3 && rank.checkpoints->missing_part() != missing && steady_clock::now() < end) {
      std::this_thread::yield();
    }
  };
  std::jthread administrator([&] {
    EXPECT_EQ(said("checkpoint_skipped", "no checkpoint at step 4"), "no checkpoint at step 4: " + missing);
    ranks->interrupt_all("that is all");
  });
  ranks->run(Ranks::initial());
  (*ranks)[0].checkpoints->others_are_elsewhere("nobody waits for it any more");
}

}  // namespace
}  // namespace holdfast::worker

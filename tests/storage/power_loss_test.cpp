// Every operation of a checkpoint's writing, of its replacement and of its removal fails, or is where the power goes: what is
// found afterwards is the old or the new checkpoint, whole, and no failure passes for a success.
#include <cerrno>
#include <functional>

#include "tests/storage/checks.h"
#include "tests/storage/faulty_file_system.h"

namespace holdfast::storage::testing {
namespace {

const State kOld(1), kNew(2);
constexpr WriteOptions kSmallShards{.shard_bytes = 4000};
constexpr uint32_t kSeeds = 12;  // ways to lose power; 0 and 1 are the extremes

struct Machine {
  std::shared_ptr<FaultyFileSystem> files;
  std::unique_ptr<ObjectStore> store;
};

Machine boot(const Disk& disk, const Fault& fault = {}) {
  Machine machine{std::make_shared<FaultyFileSystem>(disk, fault), nullptr};
  auto store = open_directory_store("/checkpoints/j1", MissingFolder::kMake, machine.files);
  EXPECT_TRUE(ok(store));
  machine.store = std::move(*store);
  return machine;
}

Disk disk_with(std::initializer_list<int64_t> steps) {
  Machine machine = boot({});
  for (const int64_t step : steps) {
    EXPECT_TRUE(ok(write_checkpoint(*machine.store, manifest_at(step), kOld.tensors(), kSmallShards)));
  }
  return machine.files->disk();
}

Disk after_power_loss(const Machine& machine, uint32_t seed) {
  Disk disk = machine.files->disk();
  disk.lose_power(seed);
  return disk;
}

using Action = std::function<Result<void>(ObjectStore&)>;
using Check = std::function<void(ObjectStore&)>;

Result<void> write_new(ObjectStore& store, int64_t step) {
  const auto written = write_checkpoint(store, manifest_at(step, 2), kNew.tensors(), kSmallShards);
  if (!written) return tl::unexpected(written.error());
  return {};
}

int64_t operations_of(const Disk& before, const Action& action) {
  Machine machine = boot(before);
  const int64_t booted = machine.files->operations();
  EXPECT_TRUE(ok(action(*machine.store)));
  EXPECT_EQ(booted, 0) << "opening a store that is there changes nothing";
  return machine.files->operations();
}

void sweep_failures(const Disk& before, const Action& action, const Check& whole, const Check& complete) {
  const int64_t operations = operations_of(before, action);
  ASSERT_GT(operations, 5);
  for (const Fault::Kind kind : {Fault::Kind::kOnce, Fault::Kind::kFromThen}) {
    for (int64_t n = 0; n < operations; ++n) {
      SCOPED_TRACE("operation " + std::to_string(n) + " of " + std::to_string(operations) + " fails, " +
                   (kind == Fault::Kind::kOnce ? "once" : "and all after it"));
      const int error = n % 2 == 0 ? EIO : ENOSPC;
      Machine machine = boot(before, {kind, n, error});
      const Result<void> done = action(*machine.store);
      ASSERT_FALSE(done) << "the failure was swallowed";
      EXPECT_EQ(done.error().code, error == EIO ? Error::Code::kUnavailable : Error::Code::kNoSpace);
      EXPECT_NE(done.error().message.find("/checkpoints/j1"), std::string::npos) << done.error().message;
      EXPECT_NE(done.error().message.find(error == EIO ? "Input/output error" : "No space left"), std::string::npos)
          << done.error().message;
      machine.files->heal();
      whole(*machine.store);
      for (uint32_t seed = 0; seed < kSeeds; ++seed) whole(*boot(after_power_loss(machine, seed)).store);
      ASSERT_TRUE(ok(action(*machine.store))) << "it is tried again";
      complete(*boot(after_power_loss(machine, 0)).store);
    }
  }
}

void sweep_power_losses(const Disk& before, const Action& action, const Check& whole, const Check& complete) {
  const int64_t operations = operations_of(before, action);
  for (int64_t n = 0; n <= operations; ++n) {
    for (uint32_t seed = 0; seed < kSeeds; ++seed) {
      SCOPED_TRACE("power goes at operation " + std::to_string(n) + " of " + std::to_string(operations) + ", seed " +
                   std::to_string(seed));
      Machine machine = boot(before, {Fault::Kind::kPowerOff, n, 0});
      const Result<void> done = action(*machine.store);
      ASSERT_EQ(done.has_value(), n == operations);
      Machine again = boot(after_power_loss(machine, seed));
      whole(*again.store);
      if (done) complete(*again.store);
      ASSERT_TRUE(ok(action(*again.store)));
      complete(*boot(after_power_loss(again, 0)).store);
    }
  }
}

struct Scenario {
  Disk before;
  Action action;
  Check whole, complete;
};

Scenario writing_the_next() {
  return {disk_with({10}), [](ObjectStore& store) { return write_new(store, 20); },
          [](ObjectStore& store) {
            EXPECT_TRUE(holds(store, 10, kOld));
            if (is_listed(store, 20)) {
              EXPECT_TRUE(holds(store, 20, kNew));
            }
          },
          [](ObjectStore& store) {
            EXPECT_TRUE(holds(store, 10, kOld));
            EXPECT_TRUE(holds(store, 20, kNew));
          }};
}

Scenario writing_the_same_step_again() {
  return {disk_with({10}), [](ObjectStore& store) { return write_new(store, 10); },
          [](ObjectStore& store) { EXPECT_TRUE(holds(store, 10, kOld) || holds(store, 10, kNew)); },
          [](ObjectStore& store) { EXPECT_TRUE(holds(store, 10, kNew)); }};
}

Scenario removing_one() {
  return {disk_with({10, 20}), [](ObjectStore& store) { return remove_checkpoint(store, 10); },
          [](ObjectStore& store) {
            EXPECT_TRUE(holds(store, 20, kOld));
            if (is_listed(store, 10)) {
              EXPECT_TRUE(holds(store, 10, kOld));
            }
          },
          [](ObjectStore& store) {
            EXPECT_TRUE(holds(store, 20, kOld));
            EXPECT_EQ(store.list("step-0000000010/")->size(), 0U);
          }};
}

// Half a checkpoint, an unfinished file and the shards of a checkpoint that was replaced.
Scenario removing_orphans() {
  Machine machine = boot(disk_with({10}));
  EXPECT_TRUE(ok(write_new(*machine.store, 10)));
  Machine crashed = boot(machine.files->disk(), {Fault::Kind::kFromThen, 20, EIO});
  EXPECT_FALSE(write_new(*crashed.store, 20));
  return {crashed.files->disk(),
          [](ObjectStore& store) -> Result<void> {
            const auto removed = remove_orphans(store, {});
            if (!removed) return tl::unexpected(removed.error());
            return {};
          },
          [](ObjectStore& store) { EXPECT_TRUE(holds(store, 10, kNew)); },
          [](ObjectStore& store) {
            EXPECT_TRUE(holds(store, 10, kNew));
            // An orphan whose removal was not durable may be back: it is removed then.
            EXPECT_TRUE(ok(remove_orphans(store, {})));
            EXPECT_EQ(store.list("")->size(), 1 + read_manifest(store, 10)->shards.size());
          }};
}

void sweep(const Scenario& scenario) {
  sweep_failures(scenario.before, scenario.action, scenario.whole, scenario.complete);
  sweep_power_losses(scenario.before, scenario.action, scenario.whole, scenario.complete);
}

TEST(PowerLoss, WritingACheckpointLeavesTheOneBeforeItAndItselfWholeOrAbsent) {
  sweep(writing_the_next());
}
TEST(PowerLoss, WritingAStepAgainLeavesTheOldOrTheNewOne) {
  sweep(writing_the_same_step_again());
}
TEST(PowerLoss, RemovingACheckpointLeavesItWholeOrAbsent) {
  sweep(removing_one());
}
TEST(PowerLoss, RemovingOrphansTouchesNoCheckpoint) {
  sweep(removing_orphans());
}

TEST(PowerLoss, AFolderThatWasMadeForTheStoreIsDurable) {
  Machine machine = boot({});
  EXPECT_TRUE(ok(write_new(*machine.store, 10)));
  EXPECT_TRUE(holds(*boot(after_power_loss(machine, 0)).store, 10, kNew));
}

// Whoever makes the store's folders is stopped at each of its operations: by power loss, or killed, so that the next finds
// folders there whose names may not be durable. What the next writes is durable all the same.
TEST(PowerLoss, StoppedWhileItsFoldersAreMadeTheNextWriterIsStillDurable) {
  constexpr const char* kFolder = "/volume/checkpoints/j1";
  Disk empty;
  const auto opened = [&](const Disk& disk, MissingFolder missing, const Fault& fault) {
    Machine machine{std::make_shared<FaultyFileSystem>(disk, fault), nullptr};
    auto store = open_directory_store(kFolder, missing, machine.files);
    if (store) machine.store = std::move(*store);
    return machine;
  };
  const int64_t operations = opened(empty, MissingFolder::kMake, {}).files->operations();
  ASSERT_EQ(operations, 6) << "three folders, each made and synced";
  for (int64_t n = 0; n <= operations; ++n) {
    const Machine stopped = opened(empty, MissingFolder::kMake, {Fault::Kind::kPowerOff, n, 0});
    ASSERT_EQ(stopped.store != nullptr, n == operations);
    std::vector<Disk> found{stopped.files->disk()};  // killed: all that it did is there, and not all of it is durable
    for (uint32_t seed = 0; seed < kSeeds; ++seed) found.push_back(after_power_loss(stopped, seed));
    for (size_t i = 0; i < found.size(); ++i) {
      SCOPED_TRACE("stopped at operation " + std::to_string(n) +
                   (i == 0 ? ", killed" : ", power lost, seed " + std::to_string(i - 1)));
      for (const MissingFolder missing : {MissingFolder::kMake, MissingFolder::kFail}) {
        const Machine next = opened(found[i], missing, {});
        if (!next.store) {
          EXPECT_EQ(missing, MissingFolder::kFail);
          continue;
        }
        ASSERT_TRUE(ok(write_new(*next.store, 10)));
        const Machine after = opened(after_power_loss(next, 0), MissingFolder::kFail, {});
        ASSERT_TRUE(after.store) << "the store's folder is gone";
        EXPECT_TRUE(holds(*after.store, 10, kNew));
      }
    }
  }
}

// A parent that cannot be read is another user's: whoever made the store's folder in it answers for its name.
TEST(PowerLoss, AParentFolderThatMayNotBeReadStopsNothing) {
  const Disk before = disk_with({});
  Machine counted = boot(before);
  ASSERT_TRUE(ok(counted.store->put("x", Bytes(10))));
  const int64_t last = counted.files->operations() - 1;  // the sync of /checkpoints
  EXPECT_TRUE(ok(boot(before, {Fault::Kind::kOnce, last, EACCES}).store->put("x", Bytes(10))));
  EXPECT_FALSE(boot(before, {Fault::Kind::kOnce, last, EIO}).store->put("x", Bytes(10)));
}

TEST(PowerLoss, TheFakeLosesWhatWasNotSynced) {
  FaultyFileSystem files;
  ASSERT_TRUE(files.make_directory("/a"));
  ASSERT_TRUE(files.sync_directory("/"));
  const auto file = files.create("/a/b");
  ASSERT_TRUE(files.write(*file, Bytes(10)));
  Disk disk = files.disk();
  disk.lose_power(0);
  EXPECT_TRUE(*FaultyFileSystem(disk).is_directory("/a"));
  EXPECT_FALSE(FaultyFileSystem(disk).read("/a/b", 100)) << "neither its name nor its bytes were synced";
  ASSERT_TRUE(files.sync_directory("/a"));
  disk = files.disk();
  disk.lose_power(0);
  EXPECT_EQ(FaultyFileSystem(disk).read("/a/b", 100)->size(), 0U) << "its bytes were not synced";
}

}  // namespace
}  // namespace holdfast::storage::testing

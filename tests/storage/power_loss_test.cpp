// Every operation of a checkpoint's writing, of its replacement and of its removal fails, or is where the power goes: what is
// found afterwards is the old or the new checkpoint, whole, and no failure passes for a success.
#include <cerrno>

#include "tests/storage/fault_sweep.h"

namespace holdfast::storage::testing {
namespace {

Scenario writing_the_next() {
  return {disk_with({10}), [](ObjectStore& store) { return write_new(store, 20); },
          [](ObjectStore& store) {
            EXPECT_TRUE(holds(store, 10, old_state()));
            if (is_listed(store, 20)) {
              EXPECT_TRUE(holds(store, 20, new_state()));
            }
          },
          [](ObjectStore& store) {
            EXPECT_TRUE(holds(store, 10, old_state()));
            EXPECT_TRUE(holds(store, 20, new_state()));
          }};
}

Scenario writing_the_same_step_again() {
  return {disk_with({10}), [](ObjectStore& store) { return write_new(store, 10); },
          [](ObjectStore& store) { EXPECT_TRUE(holds(store, 10, old_state()) || holds(store, 10, new_state())); },
          [](ObjectStore& store) { EXPECT_TRUE(holds(store, 10, new_state())); }};
}

Scenario removing_one() {
  return {disk_with({10, 20}), [](ObjectStore& store) { return remove_checkpoint(store, 10); },
          [](ObjectStore& store) {
            EXPECT_TRUE(holds(store, 20, old_state()));
            if (is_listed(store, 10)) {
              EXPECT_TRUE(holds(store, 10, old_state()));
            }
          },
          [](ObjectStore& store) {
            EXPECT_TRUE(holds(store, 20, old_state()));
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
          [](ObjectStore& store) { EXPECT_TRUE(holds(store, 10, new_state())); },
          [](ObjectStore& store) {
            EXPECT_TRUE(holds(store, 10, new_state()));
            // An orphan whose removal was not durable may be back: it is removed then.
            EXPECT_TRUE(ok(remove_orphans(store, {})));
            EXPECT_EQ(store.list("")->size(), 1 + read_manifest(store, 10)->shards.size());
          }};
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
  EXPECT_TRUE(holds(*boot(after_power_loss(machine, 0)).store, 10, new_state()));
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
    for (uint32_t seed = 0; seed < kPowerLosses; ++seed) found.push_back(after_power_loss(stopped, seed));
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
        EXPECT_TRUE(holds(*after.store, 10, new_state()));
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
  const auto file = files.create("/a/b", Readers::kAll);
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

// A checkpoint is written, replaced and removed, and each operation of that fails once or is interrupted by a loss of power.
// Afterwards the old or the new checkpoint is there, whole, and no failure was reported as a success.
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

// Orphans of all kinds: half a checkpoint, an unfinished file and the shards of a checkpoint that was replaced.
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
            // An orphan may come back if its removal was not durable: the next call removes it.
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

// The maker of the store's folders is stopped at each of its operations, by a loss of power or by a kill. The next writer may
// then find folders whose names are not durable. The checkpoint that it writes is durable nevertheless.
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
    std::vector<Disk> found{stopped.files->disk()};  // killed: all changes are there, but not all are durable
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

// A parent folder that cannot be read belongs to another user. Its durability is the concern of the user who made the store's
// folder in it.
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

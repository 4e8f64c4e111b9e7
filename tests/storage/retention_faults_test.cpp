// Retention, alone and after the checkpoint that makes it due. Each operation fails once or is interrupted by a loss of power.
// The newest verified checkpoint always stays, no checkpoint is left in part, and a failed removal is reported.
#include <cerrno>

#include "tests/storage/fault_sweep.h"

namespace holdfast::storage::testing {
namespace {

void expect_whole_or_absent(ObjectStore& store, int64_t step) {
  if (is_listed(store, step)) {
    EXPECT_TRUE(holds(store, step, old_state()));
  }
}

std::vector<int64_t> listed(ObjectStore& store) {
  const auto steps = list_checkpoints(store);
  EXPECT_TRUE(ok(steps));
  return steps.value_or(std::vector<int64_t>{});
}

// Checks that only `step` is left after one more retention. A loss of power may undo a removal that was not synced; the
// checkpoint is then whole, and the next retention removes it.
void expect_only_after_retention(ObjectStore& store, int64_t step, const State& state) {
  for (const int64_t other : listed(store)) {
    if (other != step) expect_whole_or_absent(store, other);
  }
  EXPECT_TRUE(ok(apply_retention(store, 1, step).problem));
  EXPECT_EQ(listed(store), std::vector<int64_t>{step});
  EXPECT_TRUE(holds(store, step, state));
}

Scenario keeping_one_of_three() {
  return {disk_with({10, 20, 30}), [](ObjectStore& store) { return apply_retention(store, 1, 30).problem; },
          [](ObjectStore& store) {
            EXPECT_TRUE(holds(store, 30, old_state()));
            expect_whole_or_absent(store, 10);
            expect_whole_or_absent(store, 20);
          },
          [](ObjectStore& store) { expect_only_after_retention(store, 30, old_state()); }};
}

// The calls that a worker makes when a checkpoint is due.
Result<void> write_and_retain(ObjectStore& store, int64_t step) {
  if (auto written = write_new(store, step); !written) return written;
  return apply_retention(store, 1, step).problem;
}

Scenario writing_the_next_and_keeping_one() {
  return {disk_with({10, 20}), [](ObjectStore& store) { return write_and_retain(store, 30); },
          [](ObjectStore& store) {
            expect_whole_or_absent(store, 10);
            if (is_listed(store, 30)) {
              EXPECT_TRUE(holds(store, 30, new_state()));
              expect_whole_or_absent(store, 20);
            } else {
              EXPECT_TRUE(holds(store, 20, old_state())) << "nothing goes before the new one is there";
            }
          },
          [](ObjectStore& store) { expect_only_after_retention(store, 30, new_state()); }};
}

// A job that went back writes a step again that it had written before. The newest checkpoint is replaced, then the older ones
// are removed.
Scenario writing_the_newest_again_and_keeping_one() {
  return {disk_with({10, 20}), [](ObjectStore& store) { return write_and_retain(store, 20); },
          [](ObjectStore& store) {
            EXPECT_TRUE(holds(store, 20, old_state()) || holds(store, 20, new_state()));
            expect_whole_or_absent(store, 10);
          },
          [](ObjectStore& store) { expect_only_after_retention(store, 20, new_state()); }};
}

TEST(RetentionFaults, KeepingOneOfThreeLeavesTheNewestWholeAndTheOthersWholeOrAbsent) {
  sweep(keeping_one_of_three());
}
TEST(RetentionFaults, WritingTheNextAndKeepingOneNeverLeavesNone) {
  sweep(writing_the_next_and_keeping_one());
}
TEST(RetentionFaults, WritingTheNewestAgainAndKeepingOneNeverLeavesNone) {
  sweep(writing_the_newest_again_and_keeping_one());
}

// The removal of a manifest was not synced, so the manifest may come back. Its shards must then still be there.
Scenario removing_the_rest_of_one_whose_manifest_may_come_back() {
  Machine machine = boot(disk_with({10, 20}), {Fault::Kind::kOnce, 1, EIO});
  EXPECT_FALSE(remove_checkpoint(*machine.store, 10));
  EXPECT_FALSE(is_listed(*machine.store, 10));
  return {machine.files->disk(),
          [](ObjectStore& store) -> Result<void> {
            const auto removed = remove_orphans(store, {});
            if (!removed) return tl::unexpected(removed.error());
            return {};
          },
          [](ObjectStore& store) {
            EXPECT_TRUE(holds(store, 20, old_state()));
            expect_whole_or_absent(store, 10);
          },
          [](ObjectStore& store) {
            EXPECT_TRUE(holds(store, 20, old_state()));
            expect_whole_or_absent(store, 10);
          }};
}

TEST(RetentionFaults, TheRestOfACheckpointGoesOnlyOnceItsManifestIsGoneForGood) {
  sweep(removing_the_rest_of_one_whose_manifest_may_come_back());
}

TEST(RetentionFaults, NothingGoesWhenTheNewestDoesNotVerify) {
  Machine machine = boot(disk_with({10, 20, 30}));
  const auto manifest = read_manifest(*machine.store, 30);
  ASSERT_TRUE(ok(manifest));
  const std::string shard = manifest->shards[1].key;
  Bytes bytes = machine.store->get(shard).value();
  bytes[bytes.size() / 2] ^= std::byte{4};
  ASSERT_TRUE(ok(machine.store->put(shard, bytes)));
  const Retention done = apply_retention(*machine.store, 1, 30);
  ASSERT_FALSE(done.problem);
  EXPECT_EQ(done.problem.error().code, Error::Code::kCorrupt);
  EXPECT_NE(done.problem.error().message.find(shard), std::string::npos) << done.problem.error().message;
  EXPECT_TRUE(done.removed.empty());
  EXPECT_EQ(listed(*machine.store), (std::vector<int64_t>{10, 20, 30}));
}

// The catalogue forgets exactly the checkpoints that are reported as removed. So a checkpoint that is still listed must not be
// reported, and one whose manifest is removed must be, even if a shard could not be removed.
TEST(RetentionFaults, ReportsAsRemovedExactlyTheCheckpointsThatAreNoLongerListed) {
  const Disk before = disk_with({10, 20, 30});
  Machine counted = boot(before);
  ASSERT_EQ(apply_retention(*counted.store, 1, 30).removed, (std::vector<int64_t>{10, 20}));
  for (int64_t n = 0; n < counted.files->operations(); ++n) {
    for (const Fault::Kind kind : {Fault::Kind::kOnce, Fault::Kind::kOnceDoneAnyway, Fault::Kind::kFromThen}) {
      SCOPED_TRACE("operation " + std::to_string(n));
      Machine machine = boot(before, {kind, n, EIO});
      const Retention done = apply_retention(*machine.store, 1, 30);
      EXPECT_FALSE(done.problem);
      machine.files->heal();
      std::vector<int64_t> all = listed(*machine.store);
      for (const int64_t step : done.removed) EXPECT_FALSE(is_listed(*machine.store, step));
      all.insert(all.end(), done.removed.begin(), done.removed.end());
      std::ranges::sort(all);
      EXPECT_EQ(all, (std::vector<int64_t>{10, 20, 30}));
    }
  }
}

TEST(RetentionFaults, ACheckpointThatCannotBeRemovedDoesNotKeepTheNextFromGoing) {
  const Disk before = disk_with({10, 20, 30});
  Machine machine = boot(before, {Fault::Kind::kOnce, 0, EIO});  // the manifest of 10
  const Retention done = apply_retention(*machine.store, 1, 30);
  EXPECT_EQ(done.removed, std::vector<int64_t>{20});
  ASSERT_FALSE(done.problem);
  EXPECT_NE(done.problem.error().message.find("step-0000000010/manifest.json"), std::string::npos);
  EXPECT_TRUE(holds(*machine.store, 10, old_state()));
}

}  // namespace
}  // namespace holdfast::storage::testing

// The background writer: it writes the state as it was at the submit, refuses a second submit and retries a failed write.
// Threads that submit and retry at the same time do not mix their states.
#include "storage/checkpoint_writer.h"

#include <algorithm>
#include <array>
#include <functional>
#include <future>
#include <latch>
#include <thread>

#include "tests/storage/checks.h"
#include "tests/storage/memory_store.h"

namespace holdfast::storage::testing {
namespace {

class Writer : public ::testing::Test {
 protected:
  std::function<void(const WriteOutcome&)> collect() {
    return [this](const WriteOutcome& outcome) { outcomes_.push_back(outcome); };
  }
  MemoryStore store_;
  std::vector<WriteOutcome> outcomes_;  // read after wait_idle
  const WriteOptions options_{.shard_bytes = 4000, .threads = 2};
};

TEST_F(Writer, WritesTheStateAsItWasWhenSubmitted) {
  State state(1);
  const State before = state;
  CheckpointWriter writer(store_, options_, collect());
  store_.hold();
  ASSERT_TRUE(writer.submit(manifest_at(60), state.tensors()));
  EXPECT_EQ(writer.in_progress(), 60);
  for (Tensor& tensor : state.list()) std::ranges::fill(tensor.bytes, std::byte{0});  // training goes on
  store_.release();
  writer.wait_idle();
  EXPECT_EQ(writer.in_progress(), std::nullopt);
  EXPECT_TRUE(holds(store_, 60, before));
  ASSERT_EQ(outcomes_.size(), 1U);
  EXPECT_TRUE(ok(outcomes_[0].result));
  EXPECT_EQ(outcomes_[0].step, 60);
  EXPECT_GE(outcomes_[0].stall_s, 0);
  EXPECT_GT(outcomes_[0].write_s, 0);
}

// Large enough for several stretches, so that somebody who waits at once has some of them left to copy.
TEST_F(Writer, CopiesBesideWhoeverWaitsBeforeItChangesTheState) {
  std::vector<std::byte> bytes(size_t{40} << 20);
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i * 7 >> 3);
  const std::vector<std::byte> before = bytes;
  const std::vector<ConstTensor> tensors{{"wte.weight", "float32", {static_cast<int64_t>(bytes.size() / 4)}, bytes}};
  CheckpointWriter writer(store_, {.shard_bytes = int64_t{64} << 20, .threads = 2}, collect());
  writer.make_room(bytes.size());
  for (const int64_t step : {60, 61}) {
    const std::shared_ptr<CopyBeside> copy = writer.submit_beside(manifest_at(step), tensors);
    ASSERT_TRUE(copy);
    EXPECT_EQ(writer.in_progress(), step);
    EXPECT_EQ(writer.submit_beside(manifest_at(70), tensors), nullptr) << "one is under way";
    writer.make_room(2 * bytes.size());  // no use of it now, and no harm
    copy->wait();
    std::ranges::fill(bytes, std::byte{0});  // training goes on
    copy->wait();
    writer.wait_idle();
    std::ranges::copy(before, bytes.begin());
    EXPECT_TRUE(ok(outcomes_.back().result));
    EXPECT_GE(outcomes_.back().stall_s, 0);
    std::vector<std::byte> read(bytes.size());
    const std::vector<MutableTensor> into{{"wte.weight", "float32", {static_cast<int64_t>(bytes.size() / 4)}, read}};
    EXPECT_TRUE(ok(read_checkpoint(store_, step, into)));
    EXPECT_EQ(read, before);
  }
}

TEST_F(Writer, RefusesASecondSubmitWhileOneIsUnderWay) {
  CheckpointWriter writer(store_, options_, collect());
  store_.hold();
  ASSERT_TRUE(writer.submit(manifest_at(60), State(1).tensors()));
  EXPECT_FALSE(writer.submit(manifest_at(70), State(2).tensors()));
  EXPECT_FALSE(writer.retry());
  EXPECT_EQ(writer.in_progress(), 60);
  store_.release();
  writer.wait_idle();
  EXPECT_TRUE(holds(store_, 60, State(1)));
  EXPECT_FALSE(is_listed(store_, 70));
  EXPECT_TRUE(writer.submit(manifest_at(70), State(2).tensors()));
  writer.wait_idle();
  EXPECT_TRUE(holds(store_, 70, State(2)));
}

TEST_F(Writer, ReportsAFailedWriteAndWritesTheSameCopyAgain) {
  CheckpointWriter writer(store_, options_, collect());
  EXPECT_FALSE(writer.retry()) << "nothing failed yet";
  store_.fail_with(Error{Error::Code::kUnavailable, "the disk is full"});
  {
    State state(1);
    ASSERT_TRUE(writer.submit(manifest_at(60), state.tensors()));
    writer.wait_idle();
  }  // the state is gone: the retry writes the writer's copy
  ASSERT_EQ(outcomes_.size(), 1U);
  ASSERT_FALSE(outcomes_[0].result);
  EXPECT_EQ(outcomes_[0].result.error().message, "the disk is full");
  EXPECT_TRUE(writer.retry());
  writer.wait_idle();
  EXPECT_FALSE(outcomes_.at(1).result);
  store_.fail_with(std::nullopt);
  EXPECT_TRUE(writer.retry());
  writer.wait_idle();
  EXPECT_TRUE(ok(outcomes_.at(2).result));
  EXPECT_TRUE(holds(store_, 60, State(1)));
  EXPECT_FALSE(writer.retry()) << "it succeeded";
}

TEST_F(Writer, WritesItsPartOfAStateAndAgainWhereThatFailed) {
  CheckpointWriter writer(store_, options_, collect());
  State state(1);
  Manifest manifest = manifest_of(60, state);
  const auto pieces = pieces_of(state);
  const std::vector<PieceBytes> own{pieces[1], pieces[3]};
  store_.fail_with(Error{Error::Code::kUnavailable, "the disk is full"});
  ASSERT_TRUE(writer.submit(manifest, {0, 2}, own));
  for (Tensor& tensor : state.list()) std::ranges::fill(tensor.bytes, std::byte{0});  // training goes on
  writer.wait_idle();
  EXPECT_FALSE(outcomes_.at(0).part);
  store_.fail_with(std::nullopt);
  EXPECT_TRUE(writer.retry());
  writer.wait_idle();
  ASSERT_TRUE(outcomes_.at(1).part);
  EXPECT_FALSE(is_listed(store_, 60)) << "a part alone is no checkpoint";
  Parts parts;
  const State before(1);
  ASSERT_TRUE(
      ok(write_part(store_, manifest, {1, 2}, std::vector{pieces_of(before)[0], pieces_of(before)[2], pieces_of(before)[4]})));
  ASSERT_TRUE(ok(find_parts(store_, manifest, 2, parts)));
  ASSERT_TRUE(ok(put_manifest_of(store_, manifest, parts)));
  EXPECT_TRUE(holds(store_, 60, before));
}

TEST_F(Writer, RefusesACopyThatIsNotTheStateWhoseHashIsKnown) {
  CheckpointWriter writer(store_, options_, collect());
  Manifest manifest = manifest_at(60);
  manifest.state_hash = state_hash(State(1).tensors());
  ASSERT_TRUE(writer.submit(manifest, State(2).tensors()));
  writer.wait_idle();
  ASSERT_FALSE(outcomes_.at(0).result);
  EXPECT_EQ(outcomes_[0].result.error().code, Error::Code::kCorrupt);
  EXPECT_FALSE(is_listed(store_, 60));
  EXPECT_FALSE(writer.retry()) << "the same copy would have the same hash";
  ASSERT_TRUE(writer.submit(manifest, State(1).tensors()));
  writer.wait_idle();
  EXPECT_TRUE(holds(store_, 60, State(1)));
}

TEST_F(Writer, LeavesNoShardsOfAFailedWriteBehindWhenItWritesAnotherStep) {
  CheckpointWriter writer(store_, options_, collect());
  store_.fail_with(Error{Error::Code::kNoSpace, "the disk is full"}, manifest_key(60));
  ASSERT_TRUE(writer.submit(manifest_at(60), State(1).tensors()));
  writer.wait_idle();
  EXPECT_FALSE(store_.list(checkpoint_prefix(60)).value().empty()) << "for another try";
  ASSERT_TRUE(writer.submit(manifest_at(70), State(2).tensors()));
  writer.wait_idle();
  EXPECT_TRUE(store_.list(checkpoint_prefix(60)).value().empty());
  EXPECT_TRUE(holds(store_, 70, State(2)));
}

TEST_F(Writer, LeavesShardsOfAFailedWriteAloneOnceOthersMayHaveWrittenThatStep) {
  CheckpointWriter writer(store_, options_, collect());
  store_.fail_with(Error{Error::Code::kNoSpace, "the disk is full"}, manifest_key(60));
  ASSERT_TRUE(writer.submit(manifest_at(60), State(1).tensors()));
  writer.wait_idle();
  writer.forget_left_behind();
  store_.fail_with(Error{Error::Code::kNoSpace, "the disk is full"}, manifest_key(70));
  ASSERT_TRUE(writer.submit(manifest_at(70), State(1).tensors()));
  writer.wait_idle();
  ASSERT_TRUE(writer.submit(manifest_at(80), State(2).tensors()));
  writer.wait_idle();
  EXPECT_FALSE(store_.list(checkpoint_prefix(60)).value().empty());
  EXPECT_TRUE(store_.list(checkpoint_prefix(70)).value().empty()) << "it failed afterwards";
}

TEST_F(Writer, RemovesWhatFailedWritesLeftBesideAManifestThatNobodyCanRead) {
  CheckpointWriter writer(store_, options_, collect());
  for (const int64_t step : {60, 70}) {
    store_.fail_with(Error{Error::Code::kNoSpace, "the disk is full"}, manifest_key(step));
    ASSERT_TRUE(writer.submit(manifest_at(step), State(1).tensors()));
    writer.wait_idle();
    store_.fail_with(std::nullopt);
    const std::byte torn[3] = {};
    if (step == 60) {
      EXPECT_TRUE(ok(store_.put(manifest_key(60), torn)));
    }
  }
  ASSERT_TRUE(writer.submit(manifest_at(80), State(2).tensors()));
  writer.wait_idle();
  EXPECT_FALSE(store_.list(checkpoint_prefix(60)).value().empty()) << "somebody may still want to look at it";
  EXPECT_TRUE(store_.list(checkpoint_prefix(70)).value().empty());
}

TEST_F(Writer, PutsNoManifestOverShardsThatSomebodyRemoved) {
  CheckpointWriter writer(store_, options_, collect());
  store_.hold();
  ASSERT_TRUE(writer.submit(manifest_at(60), State(1).tensors()));
  store_.lose_next_below(checkpoint_prefix(60) + "shard-0000");
  store_.release();
  writer.wait_idle();
  ASSERT_FALSE(outcomes_.at(0).result);
  EXPECT_EQ(outcomes_[0].result.error().code, Error::Code::kUnavailable);
  EXPECT_FALSE(is_listed(store_, 60));
  EXPECT_TRUE(writer.retry());
  writer.wait_idle();
  EXPECT_TRUE(holds(store_, 60, State(1)));
}

TEST_F(Writer, GivesItsRoomBackAndTakesItAgain) {
  CheckpointWriter writer(store_, options_, collect());
  for (const int64_t step : {60, 70}) {
    writer.make_room(1 << 20);
    writer.give_back_room();
    ASSERT_TRUE(writer.submit(manifest_at(step), State(1).tensors()));
    writer.give_back_room();
    writer.wait_idle();
    EXPECT_TRUE(holds(store_, step, State(1)));
  }
}

TEST_F(Writer, ANewSubmitTakesThePlaceOfAFailedOne) {
  CheckpointWriter writer(store_, options_, collect());
  store_.fail_with(Error{Error::Code::kUnavailable, "the service is away"});
  ASSERT_TRUE(writer.submit(manifest_at(60), State(1).tensors()));
  writer.wait_idle();
  store_.fail_with(std::nullopt);
  ASSERT_TRUE(writer.submit(manifest_at(70), State(2).tensors()));
  writer.wait_idle();
  EXPECT_FALSE(writer.retry());
  EXPECT_FALSE(is_listed(store_, 60));
  EXPECT_TRUE(holds(store_, 70, State(2)));
}

// In each round a write has failed. Then some threads submit other states and some retry, all at once. A thread whose call
// began a write finds its own state written, whole.
TEST_F(Writer, SubmitsAndRetriesAtOnceDoNotMixStates) {
  CheckpointWriter writer(store_, options_, collect());
  constexpr int kRounds = 150, kSubmitters = 3, kRetriers = 2;
  const State states[] = {State(1, 370), State(2, 370), State(3, 370), State(4, 370)};
  for (int round = 0; round < kRounds; ++round) {
    SCOPED_TRACE("round " + std::to_string(round));
    const int64_t first = round * 10;
    store_.fail_with(Error{Error::Code::kUnavailable, "the service is away"});
    ASSERT_TRUE(writer.submit(manifest_at(first), states[0].tensors()));
    writer.wait_idle();
    store_.fail_with(std::nullopt);
    std::latch together(kSubmitters + kRetriers);
    std::array<bool, kSubmitters + 1> begun{};  // [0]: a retry; [i]: submitter i
    std::array<bool, kRetriers> retried{};
    std::vector<std::thread> threads;
    for (size_t i = 1; i <= kSubmitters; ++i) {
      threads.emplace_back([&, i] {
        const auto tensors = states[i].tensors();
        together.arrive_and_wait();
        begun[i] = writer.submit(manifest_at(first + static_cast<int64_t>(i)), tensors);
      });
    }
    for (bool& mine : retried) {
      threads.emplace_back([&] {
        together.arrive_and_wait();
        mine = writer.retry();
      });
    }
    for (std::thread& thread : threads) thread.join();
    writer.wait_idle();
    begun[0] = std::ranges::count(retried, true) > 0;
    EXPECT_LE(std::ranges::count(retried, true), 1) << "it was written by the first";
    EXPECT_GE(std::ranges::count(begun, true), 1);
    for (size_t i = 0; i < begun.size(); ++i) {
      const int64_t step = first + static_cast<int64_t>(i);
      if (begun[i]) {
        ASSERT_TRUE(holds(store_, step, states[i]));
      } else {
        ASSERT_FALSE(is_listed(store_, step));
      }
    }
    const auto steps = list_checkpoints(store_);
    for (const int64_t step : *steps) ASSERT_TRUE(ok(remove_checkpoint(store_, step)));
  }
}

TEST_F(Writer, AStoreThatThrowsIsAFailedWrite) {
  CheckpointWriter writer(store_, options_, collect());
  store_.throw_on_put();
  ASSERT_TRUE(writer.submit(manifest_at(60), State(1).tensors()));
  writer.wait_idle();
  ASSERT_EQ(outcomes_.size(), 1U);
  EXPECT_FALSE(outcomes_[0].result);
}

TEST_F(Writer, FinishesTheWriteUnderWayBeforeItEnds) {
  store_.hold();
  std::future<void> released;
  {
    CheckpointWriter writer(store_, options_, collect());
    ASSERT_TRUE(writer.submit(manifest_at(60), State(1).tensors()));
    released = std::async(std::launch::async, [this] { store_.release(); });
  }
  EXPECT_TRUE(holds(store_, 60, State(1)));
}

TEST_F(Writer, IsUnderWayUntilItsReportReturned) {
  std::promise<void> reported, go_on;
  CheckpointWriter writer(store_, options_, [&](const WriteOutcome&) {
    reported.set_value();
    go_on.get_future().wait();
  });
  ASSERT_TRUE(writer.submit(manifest_at(60), State(1).tensors()));
  reported.get_future().wait();
  EXPECT_EQ(writer.in_progress(), 60);
  EXPECT_FALSE(writer.submit(manifest_at(70), State(2).tensors()));
  go_on.set_value();
  writer.wait_idle();
  EXPECT_EQ(writer.in_progress(), std::nullopt);
}

}  // namespace
}  // namespace holdfast::storage::testing

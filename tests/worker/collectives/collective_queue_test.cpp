// Collectives that go on beside their caller, over a ring of threads; and their ends, good and bad.
#include "worker/collectives/queue/collective_queue.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <future>
#include <latch>
#include <stdexcept>

#include "tests/worker/collectives/ring_of_threads.h"

namespace holdfast::worker {
namespace {

constexpr size_t kBuckets = 4, kEach = 1000;
constexpr std::chrono::seconds kFarTooLong{60};

// One rank: its parts, and the events that it saw.
struct Rank {
  explicit Rank(int rank) : mine(kBuckets * kEach, rank + 1), sum(mine.size()) {}

  CollectiveResult<void> reduce(Communicator& ring, size_t bucket) {
    order.push_back(bucket);
    return ring.all_reduce_sum(std::span<const int32_t>(mine).subspan(bucket * kEach, kEach),
                               std::span(sum).subspan(bucket * kEach, kEach));
  }

  std::vector<int32_t> mine, sum;
  std::vector<size_t> order;
  std::vector<CollectiveError> losses;
  std::promise<void> first_loss;
  LostPeerNotice teller{[this](const CollectiveError& error) {
    losses.push_back(error);
    if (losses.size() == 1) first_loss.set_value();
  }};
};

// A queue whose caller has the buckets ready one after the other.
struct Reduction {
  Reduction(Communicator& communicator, Rank& of) : ring(communicator), rank(of), queue(communicator, of.teller) {
    queue.start();
  }
  // The first `count` buckets.
  void ready(size_t count) {
    for (; added < count; ++added)
      queue.add([this, bucket = added] { return rank.reduce(ring, bucket); }, "bucket", static_cast<int64_t>(added));
  }
  CollectiveResult<void> finish() { return queue.finish(); }

  Communicator& ring;
  Rank& rank;
  size_t added = 0;
  CollectiveQueue queue;
};

std::unique_ptr<Reduction> over(Communicator& ring, Rank& rank) {
  return std::make_unique<Reduction>(ring, rank);
}

std::unique_ptr<Communicator> join(RingOfThreads& ring, int rank) {
  auto formed = Communicator::form(ring.transport(rank), ring.options_of(rank));
  if (!formed) throw std::runtime_error(formed.error().detail);
  return std::move(*formed);
}

TEST(CollectiveQueue, TakesTheBucketsInOrderHoweverTheyBecomeReady) {
  for (int world_size = 1; world_size <= 3; ++world_size) {
    RingOfThreads ring(world_size);
    ring.run([&](Communicator& communicator) {
      Rank rank(communicator.rank());
      const auto reduction = over(communicator, rank);
      if (communicator.rank() == 0) {
        for (size_t count = 1; count < kBuckets; ++count) reduction->ready(count);
      } else if (communicator.rank() == 1) {
        reduction->ready(3);
      }
      reduction->ready(kBuckets);
      const auto reduced = reduction->finish();
      ASSERT_TRUE(reduced) << reduced.error().detail;
      EXPECT_EQ(rank.order, (std::vector<size_t>{0, 1, 2, 3}));
      EXPECT_EQ(rank.sum, std::vector<int32_t>(rank.sum.size(), world_size * (world_size + 1) / 2));
      EXPECT_TRUE(rank.losses.empty());
    });
  }
}

TEST(CollectiveQueue, ReducesABucketWhileTheCallerHasNotFinishedTheNext) {
  RingOfThreads ring(2);
  ring.run([](Communicator& communicator) {
    Rank rank(communicator.rank());
    Reduction reduction(communicator, rank);
    reduction.ready(1);
    reduction.queue.await(1);
    EXPECT_EQ(rank.sum.front(), 3);
    EXPECT_EQ(rank.sum.back(), 0) << "the others wait for the caller";
    reduction.ready(kBuckets);
    EXPECT_TRUE(reduction.finish());
    EXPECT_EQ(rank.sum.back(), 3);
  });
}

TEST(CollectiveQueue, SeesANeighbourDieThoughNothingIsReadyAndTellsOnce) {
  RingOfThreads ring(2);
  ring.each_rank([&](int number) {
    auto communicator = join(ring, number);
    Rank rank(number);
    if (number == 1) {  // takes part in the first bucket, and dies
      EXPECT_TRUE(rank.reduce(*communicator, 0));
      return;
    }
    const auto reduction = over(*communicator, rank);
    reduction->ready(1);
    ASSERT_EQ(rank.first_loss.get_future().wait_for(kFarTooLong), std::future_status::ready);
    reduction->ready(kBuckets);  // the computation was completed all the same
    const auto reduced = reduction->finish();
    ASSERT_FALSE(reduced);
    EXPECT_EQ(reduced.error().kind, CollectiveError::Kind::kConnectionLost) << reduced.error().detail;
    ASSERT_EQ(rank.losses.size(), 1U) << "the bucket that failed was another sign of the same";
    EXPECT_EQ(rank.losses[0].suspect_rank, 1);
  });
}

TEST(CollectiveQueue, TellsOfANeighbourThatDiesInABucketBeforeTheCallerAsks) {
  RingOfThreads ring(2);
  std::latch formed(2);
  ring.each_rank([&](int number) {
    auto communicator = join(ring, number);
    formed.arrive_and_wait();
    if (number == 1) return;
    Rank rank(number);
    const auto reduction = over(*communicator, rank);
    reduction->ready(1);
    ASSERT_EQ(rank.first_loss.get_future().wait_for(kFarTooLong), std::future_status::ready);
    reduction->ready(kBuckets);
    EXPECT_THROW(reduction->queue.await(kBuckets), RingFailed);
    const auto reduced = reduction->finish();
    ASSERT_FALSE(reduced);
    EXPECT_EQ(reduced.error().suspect_rank, 1) << reduced.error().detail;
    EXPECT_EQ(rank.losses.size(), 1U);
    EXPECT_EQ(rank.order, std::vector<size_t>{0}) << "none after the one that failed";
  });
}

TEST(CollectiveQueue, AnAbortEndsItAndIsNobodysLoss) {
  RingOfThreads ring(2);
  std::latch aborted(1);
  ring.each_rank([&](int number) {
    auto communicator = join(ring, number);
    if (number == 1) return aborted.wait();  // there, but it never takes part
    Rank rank(number);
    const auto reduction = over(*communicator, rank);
    reduction->ready(kBuckets);
    communicator->abort("told to");
    const auto reduced = reduction->finish();
    aborted.count_down();
    ASSERT_FALSE(reduced);
    EXPECT_EQ(reduced.error().kind, CollectiveError::Kind::kAborted) << reduced.error().detail;
    EXPECT_TRUE(rank.losses.empty());
  });
}

TEST(CollectiveQueue, ThatIsGivenUpDoesNotWaitForTheOthers) {
  for (const size_t ready : {size_t{0}, size_t{1}, kBuckets}) {
    RingOfThreads ring(2);
    std::latch given_up(1);
    ring.each_rank([&](int number) {
      auto communicator = join(ring, number);
      if (number == 1) return given_up.wait();
      Rank rank(number);
      auto reduction = over(*communicator, rank);
      reduction->ready(ready);
      reduction.reset();
      given_up.count_down();
      EXPECT_TRUE(rank.losses.empty()) << "it ended by itself, not by the ring's timeout: " << rank.losses[0].detail;
      EXPECT_EQ(rank.reduce(*communicator, 0).error().kind, CollectiveError::Kind::kAborted)
          << "what is missing of the step is missing on every rank";
    });
  }
}

TEST(CollectiveQueue, ThrowsInTheCallersThreadWhatReduceThrew) {
  RingOfThreads ring(1);
  ring.run([](Communicator& communicator) {
    Rank rank(0);
    CollectiveQueue queue(communicator, rank.teller);
    queue.start();
    const size_t number = queue.add([]() -> CollectiveResult<void> { throw std::length_error("no memory for it"); }, "bucket");
    EXPECT_THROW(queue.await(number), std::length_error);
    EXPECT_THROW((void)queue.finish(), std::length_error);
  });
}

}  // namespace
}  // namespace holdfast::worker

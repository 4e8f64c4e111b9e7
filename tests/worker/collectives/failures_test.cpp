// How operations fail: silent, gone, killed and aborted ranks, and ranks that do not agree.
#include <gtest/gtest.h>

#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <future>
#include <latch>

#include "tests/worker/collectives/ring_of_threads.h"

namespace holdfast::worker {
namespace {

using Kind = CollectiveError::Kind;
using std::chrono::milliseconds;

constexpr size_t kLarge = 8 << 20;  // elements: more than the sockets hold

std::vector<int32_t> zeros(size_t elements) {
  return std::vector<int32_t>(elements);
}

CollectiveResult<void> sum(Communicator& ring, size_t elements) {
  auto buffer = zeros(elements);
  return sum_in_place(ring, buffer);
}

TEST(Timeout, NamesTheNeighbourThatSendsNothing) {
  RingOfThreads ranks(2);
  ranks.options().timeout = milliseconds(100);
  ranks.run([&](Communicator& ring) {
    if (ring.rank() == 1) return;  // does not call
    const auto result = sum(ring, 10);
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().kind, Kind::kTimeout);
    EXPECT_EQ(result.error().suspect_rank, 1);
    EXPECT_NE(result.error().detail.find(
                  "no bytes moved for 100 ms: nothing comes from rank 1 (all-reduce no. 1 of 40 bytes of int32"),
              std::string::npos)
        << result.error().detail;
  });
}

TEST(Timeout, NamesTheNeighbourThatTakesNothing) {
  RingOfThreads ranks(2);
  ranks.options().timeout = milliseconds(100);
  ranks.run([&](Communicator& ring) {
    if (ring.rank() == 1) return;  // does not call
    auto buffer = zeros(kLarge);
    const auto result = ring.broadcast(std::as_writable_bytes(std::span(buffer)), 0);
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().kind, Kind::kTimeout);
    EXPECT_EQ(result.error().suspect_rank, 1);
    EXPECT_NE(result.error().detail.find("rank 1 takes no more bytes"), std::string::npos) << result.error().detail;
  });
}

// A stall runs round the ring, and others may be the first to give up; but whoever stands after the silent rank never accuses
// anybody else of having sent nothing.
TEST(Timeout, TheSilentRanksSuccessorAccusesNobodyElseOfSilence) {
  RingOfThreads ranks(3);
  ranks.options().timeout = milliseconds(300);
  std::latch failed(2);  // the silent rank stays connected until the others have judged
  ranks.run([&](Communicator& ring) {
    if (ring.rank() == 2) return failed.wait();
    const auto result = sum(ring, kLarge);
    failed.count_down();
    ASSERT_FALSE(result);
    if (ring.rank() == 0 && result.error().detail.find("nothing comes from") != std::string::npos) {
      EXPECT_EQ(result.error().suspect_rank, 2) << result.error().detail;
    }
  });
}

TEST(Poison, MakesEveryLaterCallFailWithTheFirstError) {
  RingOfThreads ranks(2);
  ranks.options().timeout = milliseconds(50);
  ranks.run([&](Communicator& ring) {
    if (ring.rank() == 1) return;
    const auto first = sum(ring, 10);
    ASSERT_FALSE(first);
    auto buffer = zeros(4);
    const auto broadcast = ring.broadcast(std::as_writable_bytes(std::span(buffer)), 0);
    const auto gathered = ring.all_gather(std::as_bytes(std::span(buffer)));
    ASSERT_FALSE(broadcast);
    ASSERT_FALSE(gathered);
    EXPECT_EQ(broadcast.error().detail, first.error().detail);
    EXPECT_EQ(gathered.error().detail, first.error().detail);
    EXPECT_EQ(gathered.error().kind, Kind::kTimeout);
  });
}

// With the default timeout of 30 s, only the closed sockets can end this in time.
TEST(Poison, ReachesEveryRankOfTheRing) {
  RingOfThreads ranks(5);
  ranks.run([&](Communicator& ring) {
    if (ring.rank() == 3) ring.abort("test");
    const auto result = sum(ring, kLarge);
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().kind, ring.rank() == 3 ? Kind::kAborted : Kind::kConnectionLost) << result.error().detail;
  });
}

TEST(Closing, IsNoticedByBothNeighbours) {
  RingOfThreads ranks(3);
  ranks.each_rank([&](int rank) {
    auto ring = Communicator::form(ranks.transport(rank), ranks.options_of(rank));
    ASSERT_TRUE(ring) << ring.error().detail;
    if (rank == 1) return;  // its communicator is gone
    const auto result = sum(**ring, kLarge);
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().kind, Kind::kConnectionLost);
    EXPECT_NE(result.error().suspect_rank, rank);
    EXPECT_NE(result.error().detail.find("all-reduce no. 1 of 33554432 bytes of int32"), std::string::npos)
        << result.error().detail;
  });
}

TEST(Abort, EndsAnOperationUnderWayAtOnce) {
  RingOfThreads ranks(2);
  ranks.run([&](Communicator& ring) {
    if (ring.rank() == 1) return;  // rank 0 can only wait
    std::jthread aborter([&] {
      while (ring.bytes_moved() == 0) std::this_thread::yield();
      ring.abort("generation 2 begins");
    });
    const auto result = sum(ring, kLarge);
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().kind, Kind::kAborted);
    EXPECT_EQ(result.error().detail, "aborted: generation 2 begins");
    const auto later = sum(ring, 1);
    ASSERT_FALSE(later);
    EXPECT_EQ(later.error().detail, "aborted: generation 2 begins");
  });
}

TEST(Abort, EndsOperationsThatNeverHaveToWait) {
  RingOfThreads ranks(2);
  ranks.run([&](Communicator& ring) {
    std::jthread aborter([&] {
      if (ring.rank() == 0) {
        while (ring.bytes_moved() < 10 << 20) std::this_thread::yield();
        ring.abort("enough");
      }
    });
    for (;;) {
      const auto result = sum(ring, 1 << 20);
      if (result) continue;
      EXPECT_EQ(result.error().kind, ring.rank() == 0 ? Kind::kAborted : Kind::kConnectionLost) << result.error().detail;
      break;
    }
  });
}

TEST(Disagreement, AboutTheOperationIsAnErrorThatNamesBoth) {
  RingOfThreads ranks(2);
  std::atomic<int> told = 0;
  ranks.run([&](Communicator& ring) {
    auto buffer = zeros(100);
    const auto result =
        ring.rank() == 0 ? sum_in_place(ring, buffer) : ring.broadcast(std::as_writable_bytes(std::span(buffer)), 1);
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().kind, Kind::kConnectionLost);
    // The slower one may only see that the other has closed.
    if (result.error().detail.find("closed") != std::string::npos || result.error().detail.find("reset") != std::string::npos)
      return;
    ++told;
    EXPECT_NE(result.error().detail.find("all-reduce no. 1 of 400 bytes of int32"), std::string::npos) << result.error().detail;
    EXPECT_NE(result.error().detail.find("broadcast no. 1 of 400 bytes from rank 1"), std::string::npos)
        << result.error().detail;
  });
  EXPECT_GE(told, 1);
}

TEST(Disagreement, AboutTheSizeIsAnError) {
  RingOfThreads ranks(3);
  ranks.run([&](Communicator& ring) {
    const auto result = sum(ring, ring.rank() == 1 ? 1000 : 1001);
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().kind, Kind::kConnectionLost);
  });
}

TEST(Disagreement, AboutWhoIsToHaveASumIsAnErrorBeforeAnyByteIsTaken) {
  RingOfThreads ranks(3);
  ranks.run([&](Communicator& ring) {
    const std::vector<int32_t> mine(1000);
    auto sum = zeros(1000);
    const SumPart part{0, 1000, ring.rank() == 1 ? 0 : 2, 0};
    const auto result = ring.reduce_scatter_sum(std::span<const int32_t>(mine), sum, {&part, 1});
    if (ring.rank() == 0) return;  // hears from rank 2 alone, which says the same
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().kind, Kind::kConnectionLost);
  });
}

TEST(Recovery, FormsTheNextGenerationOnTheSameTransports) {
  RingOfThreads ranks(3);
  for (int64_t generation = 1; generation <= 10; ++generation) {
    ranks.options().generation = generation;
    ranks.options().secret = "secret of " + std::to_string(generation);
    ranks.each_rank([&](int rank) {
      auto formed = Communicator::form(ranks.transport(rank), ranks.options_of(rank));
      ASSERT_TRUE(formed) << formed.error().detail;
      Communicator& ring = **formed;
      auto buffer = std::vector<int32_t>(1000, rank);
      ASSERT_TRUE(sum_in_place(ring, buffer));
      ASSERT_EQ(buffer[999], 3);
      if (rank == generation % 3) ring.abort("test");
      EXPECT_FALSE(sum(ring, kLarge / 8));
    });
  }
}

// --- processes -------------------------------------------------------------------------------------------------------

struct Report {
  int rank, suspect;
  Kind kind;
};

// A rank as a process: tells when it is in the ring, sums until that fails, and reports how.
[[noreturn]] void run_process(RingOfThreads& ranks, int rank, int ready, int reports) {
  auto ring = Communicator::form(ranks.transport(rank), ranks.options_of(rank));
  if (!ring) _exit(1);
  while (true) {
    const auto result = sum(**ring, 1 << 20);
    if (!result) {
      const Report report{rank, result.error().suspect_rank, result.error().kind};
      _exit(write(reports, &report, sizeof report) == sizeof report ? 0 : 1);
    }
    if (write(ready, "+", 1) != 1) _exit(1);
  }
}

TEST(KilledProcess, IsNoticedByEveryOtherRank) {
  constexpr int kWorld = 4, kVictim = 2;
  RingOfThreads ranks(kWorld);
  int ready[2], reports[2];
  ASSERT_EQ(pipe(ready), 0);
  ASSERT_EQ(pipe(reports), 0);
  std::vector<pid_t> children;
  for (int rank = 0; rank < kWorld; ++rank) {
    children.push_back(fork());
    ASSERT_GE(children.back(), 0);
    if (children.back() == 0) run_process(ranks, rank, ready[1], reports[1]);
  }
  char plus;
  for (int i = 0; i < 3 * kWorld; ++i) ASSERT_EQ(read(ready[0], &plus, 1), 1);  // several rounds are through
  kill(children[kVictim], SIGKILL);

  bool victim_named = false;
  for (int i = 0; i < kWorld - 1; ++i) {
    Report report{};
    ASSERT_EQ(read(reports[0], &report, sizeof report), static_cast<ssize_t>(sizeof report));
    EXPECT_EQ(report.kind, Kind::kConnectionLost) << "rank " << report.rank;
    victim_named |= report.suspect == kVictim;
  }
  EXPECT_TRUE(victim_named);
  for (const pid_t child : children) waitpid(child, nullptr, 0);
  for (const int fd : {ready[0], ready[1], reports[0], reports[1]}) close(fd);
}

TEST(QuietRing, TellsWhomItWaitsForAndWaitsOn) {
  RingOfThreads ranks(2);
  std::promise<CollectiveError> told;
  std::atomic<bool> was_told = false;  // once more where the other one stands still between its chunks
  ranks.run([&](Communicator& ring) {
    if (ring.rank() == 0) {
      ring.set_patience(std::chrono::seconds(30), milliseconds(20), [&](const CollectiveError& quiet) {
        if (!was_told.exchange(true)) told.set_value(quiet);
      });
    } else {
      told.get_future().wait();  // as one that computes for long
    }
    std::vector<int32_t> buffer(100, 1);
    EXPECT_TRUE(sum_in_place(ring, buffer)) << "a question is no failure";
    EXPECT_EQ(buffer[7], 2);
    if (ring.rank() == 0) ring.set_patience(std::chrono::seconds(30), std::chrono::seconds(30), {});
  });
}

}  // namespace
}  // namespace holdfast::worker

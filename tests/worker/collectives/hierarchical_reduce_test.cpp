// Ranks that share nodes: sums through shared memory and a ring between nodes.
#include "worker/collectives/hierarchical_reduce.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sys/resource.h>

#include <chrono>
#include <future>
#include <latch>
#include <numeric>
#include <random>

#include "tests/worker/collectives/ring_of_threads.h"

namespace holdfast::worker {
namespace {

using std::chrono::milliseconds;
using testing::ElementsAre;
using testing::HasSubstr;

// Ranks by the node that each is on.
class RanksOnNodes {
 public:
  explicit RanksOnNodes(std::vector<std::string> nodes) : ring_(static_cast<int>(nodes.size())), nodes_(std::move(nodes)) {}

  RingOptions& options() { return ring_.options(); }
  RingOfThreads& ring() { return ring_; }
  CollectiveResult<std::unique_ptr<Communicator>> form(int rank) {
    auto formed = Communicator::form(ring_.transport(rank), ring_.options_of(rank));
    if (!formed) return formed;
    const auto shared = (*formed)->share_memory(nodes_[static_cast<size_t>(rank)]);
    return shared ? std::move(formed) : tl::make_unexpected(shared.error());
  }

  void run(const std::function<void(Communicator& ring)>& body) {
    std::vector<std::unique_ptr<Communicator>> rings(nodes_.size());
    ring_.each_rank([&](int rank) {
      auto formed = form(rank);
      ASSERT_TRUE(formed) << "rank " << rank << ": " << formed.error().detail;
      rings[static_cast<size_t>(rank)] = std::move(*formed);
      body(*rings[static_cast<size_t>(rank)]);
    });
  }

 private:
  RingOfThreads ring_;
  std::vector<std::string> nodes_;
};

template <typename T>
std::vector<T> numbers_of(int rank, size_t count) {
  std::mt19937 random(static_cast<unsigned>(rank) + 7);
  std::vector<T> numbers(count);
  for (T& number : numbers) {
    if constexpr (std::is_floating_point_v<T>) {
      number = static_cast<T>(random() % 2000) / 7 - 100;
    } else {
      number = static_cast<T>(random());
    }
  }
  return numbers;
}

template <typename T>
std::vector<T> wrapped_sum(int ranks, size_t count) {
  std::vector<T> sum(count, 0);
  for (int rank = 0; rank < ranks; ++rank) {
    const auto mine = numbers_of<T>(rank, count);
    for (size_t i = 0; i < count; ++i) sum[i] = static_cast<T>(static_cast<uint64_t>(sum[i]) + static_cast<uint64_t>(mine[i]));
  }
  return sum;
}

TEST(GroupByNode, EqualNamesShareANodeAndNoNameIsAlone) {
  const std::vector<std::string> nodes{"b", "a", "", "b", "", "a"};
  EXPECT_THAT(group_by_node(nodes), ElementsAre(ElementsAre(0, 3), ElementsAre(1, 5), ElementsAre(2), ElementsAre(4)));
}

const std::vector<std::vector<std::string>> kLayouts{{"a", "a"},           {"a", "a", "a"}, {"a", "a", "b", "b"},
                                                     {"a", "b", "a", "b"}, {"a", "b", "b"}, {"a", "a", "a", "b", "b", "c"},
                                                     {"", "a", "a", ""}};

TEST(HierarchicalReduce, IntegersHaveTheSumOfAllRanksInEveryLayout) {
  for (const auto& nodes : kLayouts) {
    RanksOnNodes ranks(nodes);
    ranks.options().chunk_bytes = 4096;  // pieces of 4096 or 32768 numbers
    ranks.run([&](Communicator& ring) {
      EXPECT_GT(ring.nodes(), 0);
      // Lengths about the pieces' and the cache lines', one after the other, so that slots are used again and again.
      for (const size_t count : {0UL, 1UL, 15UL, 1000UL, 4096UL, 4097UL, 12289UL, 32768UL, 32769UL, 100003UL, 3UL}) {
        const auto mine = numbers_of<int32_t>(ring.rank(), count);
        std::vector<int32_t> sum(count, -1);
        const auto done = ring.all_reduce_sum(mine, sum);
        ASSERT_TRUE(done) << done.error().detail;
        ASSERT_EQ(sum, wrapped_sum<int32_t>(ring.world_size(), count)) << count;
      }
      const auto mine = numbers_of<int16_t>(ring.rank(), 30001);
      std::vector<int16_t> sum(mine.size());
      ASSERT_TRUE(ring.all_reduce_sum(mine, sum));
      ASSERT_EQ(sum, wrapped_sum<int16_t>(ring.world_size(), mine.size()));
    });
  }
}

TEST(HierarchicalReduce, FloatsHaveTheSameBitsOnAllRanks) {
  for (const auto& nodes : kLayouts) {
    RanksOnNodes ranks(nodes);
    ranks.options().chunk_bytes = 8192;
    std::vector<std::vector<float>> sums(nodes.size());
    ranks.run([&](Communicator& ring) {
      const auto mine = numbers_of<float>(ring.rank(), 70001);
      auto& sum = sums[static_cast<size_t>(ring.rank())];
      sum.resize(mine.size());
      ASSERT_TRUE(ring.all_reduce_sum(mine, sum));
    });
    for (const auto& sum : sums) EXPECT_EQ(sum, sums.front());
    std::vector<double> whole(70001);
    for (size_t rank = 0; rank < nodes.size(); ++rank) {
      const auto numbers = numbers_of<float>(static_cast<int>(rank), 70001);
      for (size_t i = 0; i < whole.size(); ++i) whole[i] += numbers[i];
    }
    double furthest = 0;
    for (size_t i = 0; i < whole.size(); ++i) furthest = std::max(furthest, std::abs(double{sums.front()[i]} - whole[i]));
    EXPECT_LT(furthest, 1e-3);
  }
}

TEST(HierarchicalReduce, OtherCollectivesWorkBetweenAllRanks) {
  RanksOnNodes ranks({"a", "a", "b", "b"});
  ranks.run([&](Communicator& ring) {
    for (int round = 0; round < 20; ++round) {
      const auto gathered = ring.all_gather(std::vector<std::byte>(static_cast<size_t>(ring.rank() + round), std::byte{7}));
      ASSERT_TRUE(gathered);
      EXPECT_EQ((*gathered)[3].size(), 3U + static_cast<size_t>(round));
      auto numbers = numbers_of<int32_t>(ring.rank(), 10000);
      ASSERT_TRUE(sum_in_place(ring, numbers));
      EXPECT_EQ(numbers, wrapped_sum<int32_t>(4, 10000));
    }
  });
}

TEST(HierarchicalReduce, BytesBetweenNodesAreTwoThirdsOfTheFlatRings) {
  const auto bytes_of = [](const std::vector<std::string>& nodes) {
    RanksOnNodes ranks(nodes);
    std::vector<uint64_t> moved(nodes.size());
    ranks.run([&](Communicator& ring) {
      std::vector<int32_t> numbers(4000000, 1);
      const uint64_t before = ring.bytes_moved();
      ASSERT_TRUE(sum_in_place(ring, numbers));
      moved[static_cast<size_t>(ring.rank())] = ring.bytes_moved() - before;
    });
    return moved;
  };
  const auto flat = bytes_of({"", "", "", ""}), hierarchical = bytes_of({"a", "a", "b", "b"});
  // In the flat ring ranks 1 and 3 send to another node, and 0 and 2 receive from one: as much as they send and receive within.
  const auto flat_between = static_cast<double>(flat[0] + flat[1] + flat[2] + flat[3]) / 4;
  const auto between = static_cast<double>(hierarchical[0] + hierarchical[2]) / 2;
  EXPECT_NEAR(between / flat_between, 2.0 / 3, 0.01);
  EXPECT_EQ(hierarchical[1], 0U);
  EXPECT_EQ(hierarchical[3], 0U);
}

// The ranks that fail keep their communicators until all have: it is the failure itself that is passed on.
TEST(HierarchicalReduce, ARankThatEndsIsNoticedByAllWhereverItIs) {
  for (int victim = 0; victim < 4; ++victim) {
    RanksOnNodes ranks({"a", "a", "b", "b"});
    std::latch failed(3);
    ranks.ring().each_rank([&](int rank) {
      auto formed = ranks.form(rank);
      ASSERT_TRUE(formed) << formed.error().detail;
      std::vector<int32_t> numbers(100000, 1);
      ASSERT_TRUE(sum_in_place(**formed, numbers));
      if (rank == victim) return;  // ends its connections
      const auto begun = std::chrono::steady_clock::now();
      const auto lost = sum_in_place(**formed, numbers);
      ASSERT_FALSE(lost);
      EXPECT_EQ(lost.error().kind, CollectiveError::Kind::kConnectionLost) << lost.error().detail;
      EXPECT_LT(std::chrono::steady_clock::now() - begun, std::chrono::seconds(5));
      const auto again = sum_in_place(**formed, numbers);
      ASSERT_FALSE(again);
      EXPECT_EQ(again.error().detail, lost.error().detail) << "the first failure is the last";
      failed.arrive_and_wait();
    });
  }
}

TEST(HierarchicalReduce, ARankThatDoesNotComeIsAskedAfterAndThenGivenUp) {
  RanksOnNodes ranks({"a", "a", "a"});
  std::promise<void> over;
  const auto until_over = over.get_future().share();
  std::atomic<int> asked{0}, failed{0};
  ranks.ring().each_rank([&](int rank) {
    auto formed = ranks.form(rank);
    ASSERT_TRUE(formed);
    if (rank == 1) return until_over.wait();
    (*formed)->set_patience(milliseconds(2000), milliseconds(100), [&](const CollectiveError& error) {
      if (error.suspect_rank != 1) return;  // the other one is late itself
      EXPECT_THAT(
          error.detail,
          HasSubstr("no bytes moved for 100 ms: rank 1, on this node, has not come to bring its part of an all-reduce"));
      ++asked;
    });
    std::vector<int32_t> numbers(1000, 1);
    const auto lost = sum_in_place(**formed, numbers);
    ASSERT_FALSE(lost);
    EXPECT_TRUE(lost.error().suspect_rank == 1 || lost.error().kind == CollectiveError::Kind::kConnectionLost)
        << lost.error().detail;
    if (++failed == 2) over.set_value();
  });
  EXPECT_GE(asked, 2);  // again, where one came late itself
}

TEST(HierarchicalReduce, ARankMayEndAsSoonAsItHasItsSum) {
  for (int round = 0; round < 30; ++round) {
    RanksOnNodes ranks(round % 2 == 0 ? std::vector<std::string>{"a", "a", "b", "b"} : std::vector<std::string>{"a", "a", "a"});
    ranks.ring().each_rank([&](int rank) {
      auto formed = ranks.form(rank);
      ASSERT_TRUE(formed);
      std::vector<int32_t> numbers(200000, 1);
      const auto done = sum_in_place(**formed, numbers);
      EXPECT_TRUE(done) << "rank " << rank << ": " << done.error().detail;
    });
  }
}

TEST(HierarchicalReduce, WithoutMemoryAllRanksUseTheRing) {
  RanksOnNodes ranks({"a", "a"});
  ranks.ring().run([](Communicator& ring) {
    ASSERT_TRUE(ring.all_gather({}));  // no rank connects any more
    if (ring.rank() == 0) {            // descriptors are all that it takes; none are left
      rlimit limit{};
      getrlimit(RLIMIT_NOFILE, &limit);
      const rlimit none{3, limit.rlim_max};
      setrlimit(RLIMIT_NOFILE, &none);
      EXPECT_TRUE(ring.share_memory("a"));
      setrlimit(RLIMIT_NOFILE, &limit);
    } else {
      EXPECT_TRUE(ring.share_memory("a"));
    }
    EXPECT_EQ(ring.nodes(), 0);
    EXPECT_THAT(ring.memory_refused(), HasSubstr("rank 0: making shared memory: Too many open files"));
    auto numbers = numbers_of<int32_t>(ring.rank(), 1000);
    ASSERT_TRUE(sum_in_place(ring, numbers));
    EXPECT_EQ(numbers, wrapped_sum<int32_t>(2, 1000));
  });
}

TEST(HierarchicalReduce, WhereLeadersDoNotReachEachOtherAllRanksUseTheRing) {
  RanksOnNodes ranks({"a", "a", "b", "b"});
  ranks.options().form_timeout = milliseconds(2000);
  const RingOptions shared = ranks.options();
  ranks.ring().each_rank([&](int rank) {
    RingOptions options = shared;
    options.rank = rank;
    if (rank == 0) options.addresses[2] = "127.0.0.1:1";  // its neighbour between nodes, and not on the ring
    auto ring = Communicator::form(ranks.ring().transport(rank), options);
    ASSERT_TRUE(ring);
    ASSERT_TRUE((*ring)->share_memory(rank < 2 ? "a" : "b"));
    EXPECT_EQ((*ring)->nodes(), 0);
    EXPECT_THAT((*ring)->memory_refused(), HasSubstr("rank 0: no ring of the first ranks of all nodes: "));
    auto numbers = numbers_of<int32_t>(rank, 1000);
    ASSERT_TRUE(sum_in_place(**ring, numbers));
    EXPECT_EQ(numbers, wrapped_sum<int32_t>(4, 1000));
    ASSERT_TRUE((*ring)->all_gather({}));
  });
}

TEST(HierarchicalReduce, AbortEndsAWaitAtOnce) {
  RanksOnNodes ranks({"a", "a"});
  std::promise<void> over;
  const auto until_over = over.get_future().share();
  ranks.ring().each_rank([&](int rank) {
    auto formed = ranks.form(rank);
    ASSERT_TRUE(formed);
    if (rank == 1) return until_over.wait();
    const std::jthread other([&] {
      std::this_thread::sleep_for(milliseconds(30));
      (*formed)->abort("the test says so");
    });
    std::vector<int32_t> numbers(1000, 1);
    const auto begun = std::chrono::steady_clock::now();
    const auto lost = sum_in_place(**formed, numbers);
    ASSERT_FALSE(lost);
    EXPECT_EQ(lost.error().detail, "aborted: the test says so");
    EXPECT_LT(std::chrono::steady_clock::now() - begun, std::chrono::seconds(5));
    over.set_value();
  });
}

TEST(HierarchicalReduce, RanksThatDoDifferentThingsAreTold) {
  RanksOnNodes ranks({"a", "a"});
  ranks.ring().each_rank([&](int rank) {
    auto formed = ranks.form(rank);
    ASSERT_TRUE(formed);
    std::vector<int32_t> numbers(rank == 0 ? 1000 : 2000, 1);
    const auto lost = sum_in_place(**formed, numbers);
    ASSERT_FALSE(lost);
    if (lost.error().kind == CollectiveError::Kind::kConnectionLost && lost.error().ended) return;  // the other one told first
    EXPECT_THAT(lost.error().detail,
                HasSubstr(rank == 0 ? "is at all-reduce no. 1 of 8000 bytes of int32, while this rank is at "
                                      "all-reduce no. 1 of 4000 bytes"
                                    : "is at all-reduce no. 1 of 4000 bytes of int32, while this rank is at "
                                      "all-reduce no. 1 of 8000 bytes"));
  });
}

TEST(SharedMemory, IsTheSameMemoryWhereItIsOpened) {
  auto made = SharedMemory::make(100000);
  ASSERT_TRUE(made) << made.error();
  auto opened = SharedMemory::open(made->offer());
  ASSERT_TRUE(opened) << opened.error();
  EXPECT_EQ(made->bytes()[99999], std::byte{0});
  opened->bytes()[99999] = std::byte{5};
  EXPECT_EQ(made->bytes()[99999], std::byte{5});
  made->close_offer();
  EXPECT_THAT(SharedMemory::open(made->offer()).error(), HasSubstr("is not another worker's shared memory"));
}

TEST(SharedMemory, IsNotTakenForAnother) {
  const auto made = SharedMemory::make(4096), other = SharedMemory::make(4096);
  ASSERT_TRUE(made && other);
  auto offer = made->offer();
  offer.descriptor = other->offer().descriptor;
  EXPECT_THAT(SharedMemory::open(offer).error(), HasSubstr("is another program's shared memory"));
  offer = made->offer();
  offer.bytes = 8192;
  EXPECT_THAT(SharedMemory::open(offer).error(), HasSubstr("has 4096 bytes, not 8192"));
  offer.descriptor = 0;
  EXPECT_THAT(SharedMemory::open(offer).error(), HasSubstr("in another container, or as another user"));
}

}  // namespace
}  // namespace holdfast::worker

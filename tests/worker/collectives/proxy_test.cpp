// A ring with a harmful network between two ranks: wherever it cuts, freezes or alters, every rank ends with the right sums
// or an error, never with wrong sums.
#include <gtest/gtest.h>

#include <random>

#include "tests/worker/collectives/faulty_proxy.h"
#include "tests/worker/collectives/ring_of_threads.h"

namespace holdfast::worker {
namespace {

using Kind = CollectiveError::Kind;
using std::chrono::milliseconds;

constexpr size_t kElements = 20000;

struct Outcome {
  int correct = 0, failed = 0;
  std::vector<std::string> details;
};

// Two ranks sum, gather and broadcast; what rank 0 sends to rank 1 meets the fault.
Outcome run_through(const Fault& fault, milliseconds timeout = milliseconds(250), uint64_t* bytes = nullptr) {
  RingOfThreads ranks(2);
  ranks.options().form_timeout = timeout;
  ranks.options().timeout = timeout;
  ranks.options().chunk_bytes = 8192;
  ranks.options().checksums_within_node = true;
  FaultyProxy proxy(ranks.transport(1).address(), fault);
  std::mutex mutex;
  Outcome outcome;
  ranks.each_rank([&](int rank) {
    const auto failed = [&](const CollectiveError& error) {
      const std::lock_guard lock(mutex);
      ++outcome.failed;
      outcome.details.push_back("rank " + std::to_string(rank) + ": " + error.detail);
    };
    RingOptions options = ranks.options_of(rank);
    if (rank == 0) options.addresses[1] = proxy.address();
    auto ring = Communicator::form(ranks.transport(rank), options);
    if (!ring) return failed(ring.error());
    std::vector<int32_t> buffer(kElements, rank + 1);
    if (const auto summed = sum_in_place(**ring, buffer); !summed) return failed(summed.error());
    EXPECT_EQ(buffer, std::vector<int32_t>(kElements, 3));
    const std::vector<std::byte> mine(5000, static_cast<std::byte>(rank));
    const auto gathered = (*ring)->all_gather(mine);
    if (!gathered) return failed(gathered.error());
    for (int i = 0; i < 2; ++i)
      EXPECT_EQ((*gathered)[static_cast<size_t>(i)], std::vector<std::byte>(5000, static_cast<std::byte>(i)));
    std::vector<std::byte> shared(5000, static_cast<std::byte>(rank));
    if (const auto sent = (*ring)->broadcast(shared, 0); !sent) return failed(sent.error());
    EXPECT_EQ(shared, std::vector<std::byte>(5000, std::byte{0}));
    const std::lock_guard lock(mutex);
    ++outcome.correct;
  });
  if (bytes) *bytes = proxy.bytes_from_client();
  return outcome;
}

// Where to strike: the handshake and the first header closely, then here and there, up to the last byte.
std::vector<uint64_t> positions(uint64_t total, std::mt19937& random, int many) {
  std::vector<uint64_t> at{0, 1, 71, 72, 100, 107, 108, 147, 148, 149, total - 1};
  for (int i = 0; i < many; ++i) at.push_back(random() % total);
  return at;
}

class HarmfulNetwork : public testing::Test {
 protected:
  void SetUp() override {
    const Outcome unharmed = run_through({}, std::chrono::seconds(20), &total);
    ASSERT_EQ(unharmed.correct, 2) << unharmed.details.at(0);
    constexpr uint64_t kFarewell = 24;  // of TLS, when all is done: whoever harms that harms nothing
    if (RingOfThreads(1).options().encrypted) total -= kFarewell;
  }
  uint64_t total = 0;
  unsigned seed = std::random_device{}();
  std::mt19937 random{seed};
};

TEST_F(HarmfulNetwork, ThatCutsGivesNoWrongSums) {
  for (const uint64_t at : positions(total, random, 25)) {
    SCOPED_TRACE(testing::Message() << "seed " << seed << ", cut after " << at << " of " << total);
    const Outcome outcome = run_through({.cut_after = at});
    EXPECT_GE(outcome.failed, 1);
    EXPECT_EQ(outcome.failed + outcome.correct, 2);
  }
}

TEST_F(HarmfulNetwork, ThatFreezesGivesNoWrongSums) {
  for (const uint64_t at : positions(total, random, 5)) {
    SCOPED_TRACE(testing::Message() << "seed " << seed << ", frozen after " << at << " of " << total);
    const Outcome outcome = run_through({.freeze_after = at});
    EXPECT_GE(outcome.failed, 1);
    EXPECT_EQ(outcome.failed + outcome.correct, 2);
  }
}

TEST_F(HarmfulNetwork, ThatAltersABitIsFoundOut) {
  for (const uint64_t at : positions(total, random, 40)) {
    SCOPED_TRACE(testing::Message() << "seed " << seed << ", bit flipped in byte " << at << " of " << total);
    const Outcome outcome = run_through({.flip_bit_at = at});
    EXPECT_GE(outcome.failed, 1);
    EXPECT_EQ(outcome.failed + outcome.correct, 2);
  }
}

// Rank 0's bytes take 60 ticks of 50 ms: longer than the timeout, but they move all the time, and rank 1 answers every chunk.
TEST(SlowNetwork, IsWaitedForWhileBytesMove) {
  RingOfThreads ranks(2);
  ranks.options().timeout = milliseconds(2000);
  ranks.options().chunk_bytes = 1000;
  ranks.options().form_timeout = std::chrono::seconds(20);
  FaultyProxy proxy(ranks.transport(1).address(), {.bytes_per_tick = 4 * kElements / 60});
  ranks.each_rank([&](int rank) {
    RingOptions options = ranks.options_of(rank);
    if (rank == 0) options.addresses[1] = proxy.address();
    auto ring = Communicator::form(ranks.transport(rank), options);
    ASSERT_TRUE(ring) << ring.error().detail;
    std::vector<int32_t> buffer(kElements, 1);
    const auto summed = sum_in_place(**ring, buffer);
    EXPECT_TRUE(summed) << summed.error().detail;
  });
}

}  // namespace
}  // namespace holdfast::worker

// Encrypted rings: who gets in, what others hear, and that a peer that stalls in the middle of TLS holds nobody up.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <optional>

#include "tests/worker/collectives/faulty_proxy.h"
#include "tests/worker/collectives/ring_of_threads.h"
#include "worker/collectives/handshake.h"

namespace holdfast::worker {
namespace {

using std::chrono::milliseconds;
using testing::HasSubstr;
using testing::Not;

constexpr std::string_view kText = "the gradient that nobody may read!! ";  // 36 bytes, 9 numbers
constexpr size_t kTimes = 3000;

std::vector<int32_t> text_as_numbers() {
  std::vector<int32_t> numbers(kText.size() / 4 * kTimes);
  for (size_t i = 0; i < kTimes; ++i) std::memcpy(numbers.data() + i * kText.size() / 4, kText.data(), kText.size());
  return numbers;
}

// All collectives that move a rank's own bytes, with the text in them.
void tell_the_text(Communicator& ring) {
  const bool speaks = ring.rank() == 0;
  const auto text = text_as_numbers();
  std::vector<int32_t> sums(text.size());
  ASSERT_TRUE(ring.all_reduce_sum(speaks ? text : std::vector<int32_t>(text.size()), sums));
  EXPECT_EQ(sums, text);
  auto shared = speaks ? text : std::vector<int32_t>(text.size());
  ASSERT_TRUE(ring.broadcast(std::as_writable_bytes(std::span(shared)), 0));
  EXPECT_EQ(shared, text);
  const auto gathered = ring.all_gather(std::as_bytes(std::span(text)));
  ASSERT_TRUE(gathered);
  EXPECT_EQ(std::memcmp((*gathered)[0].data(), text.data(), (*gathered)[0].size()), 0);
}

// The bytes that a listener between rank 0 and rank `to` hears. `nodes`: of the ranks, where they share memory.
std::string overheard(bool encrypted, const std::vector<std::string>& nodes, size_t to) {
  RingOfThreads ranks(static_cast<int>(nodes.size()));
  ranks.options().encrypted = encrypted;
  const FaultyProxy wire(ranks.transport(static_cast<int>(to)).address(), {.overhears = true});
  std::vector<std::unique_ptr<Communicator>> rings(nodes.size());
  ranks.each_rank([&](int rank) {
    RingOptions options = ranks.options_of(rank);
    if (rank == 0) options.addresses[to] = wire.address();
    auto ring = Communicator::form(ranks.transport(rank), options);
    ASSERT_TRUE(ring) << ring.error().detail;
    EXPECT_EQ((*ring)->encryption().starts_with("TLS 1.3 with "), encrypted) << (*ring)->encryption();
    ASSERT_TRUE((*ring)->share_memory(nodes[static_cast<size_t>(rank)]));
    EXPECT_EQ((*ring)->memory_refused(), "");
    tell_the_text(**ring);
    rings[static_cast<size_t>(rank)] = std::move(*ring);
  });
  EXPECT_GT(wire.overheard().size(), kText.size() * kTimes) << "it is not on the way";
  return wire.overheard();
}

TEST(EncryptedRing, IsReadByNobodyOnTheWay) {
  EXPECT_THAT(overheard(false, {"", ""}, 1), HasSubstr(kText)) << "so the listener would see it";
  EXPECT_THAT(overheard(true, {"", ""}, 1), Not(HasSubstr(kText.substr(0, 12))));
}

TEST(EncryptedRing, NorIsTheRingOfTheNodesLeaders) {
  EXPECT_THAT(overheard(false, {"a", "a", "b", "b"}, 2), HasSubstr(kText)) << "so the listener would see it";
  EXPECT_THAT(overheard(true, {"a", "a", "b", "b"}, 2), Not(HasSubstr(kText.substr(0, 12))));
}

TEST(EncryptedRing, KeepsOutARankThatIsPlainAndThatRankKeepsItOut) {
  for (const bool first : {false, true}) {
    RingOfThreads ranks(2);
    ranks.options().form_timeout = milliseconds(1500);
    std::vector<std::string> said(2);
    ranks.each_rank([&](int rank) {
      RingOptions options = ranks.options_of(rank);
      options.encrypted = (rank == 0) == first;
      const auto formed = Communicator::form(ranks.transport(rank), options);
      ASSERT_FALSE(formed);
      said[static_cast<size_t>(rank)] = formed.error().detail;
    });
    // The rank that is refused second may find the other one gone.
    EXPECT_THAT(said[0] + said[1],
                testing::AnyOf(HasSubstr("this worker encrypts the ring with TLS 1.3 (ring_tls on), and that one does not"),
                               HasSubstr("this worker does not encrypt the ring (ring_tls off), and that one does")));
  }
}

// A connection to rank 1 by somebody who has the secret and is accepted as rank 0, before TLS begins.
std::unique_ptr<Connection> accepted_as_rank_0(Transport& transport, const RingOptions& options) {
  const RingPlace place{options.job, options.generation, 0, 2, options.secret, true};
  auto connection = transport.connect(options.addresses[1]).value();
  const auto gather = [&](size_t length) {
    Bytes bytes(length);
    for (size_t done = 0; done < length;) {
      const Transport::Interest interest{connection.get(), false, true};
      if (!transport.wait(std::span(&interest, 1), false, std::chrono::steady_clock::now() + std::chrono::seconds(20)))
        throw std::runtime_error("rank 1 does not answer");
      done += connection->receive_some(std::span(bytes).subspan(done)).value();
    }
    return bytes;
  };
  const Nonce challenge = decode_challenge(gather(kChallengeBytes)).value();
  const Bytes hello = encode_hello(place, random_nonce(), challenge);
  if (connection->send_some(hello, false).value() != hello.size()) throw std::runtime_error("a hello did not fit");
  const Bytes verdict = gather(kVerdictFixedBytes);
  if (judge_verdict(place, verdict, hello).code != Verdict::Code::kAccepted) throw std::runtime_error("not accepted");
  return connection;
}

TEST(EncryptedRing, IsNotHeldUpByThoseWhoStallOrTalkNonsenseInsteadOfTls) {
  RingOfThreads ranks(2);
  ranks.options().encrypted = true;
  std::optional<CollectiveResult<std::unique_ptr<Communicator>>> formed;
  std::jthread rank1([&] { formed.emplace(Communicator::form(ranks.transport(1), ranks.options_of(1))); });
  auto stranger = loopback_transport();
  std::vector<std::unique_ptr<Connection>> open;
  for (const std::string words : {"", "HFop and then an operation in plain bytes, as long as a ClientHello would be",
                                  "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"}) {
    open.push_back(accepted_as_rank_0(*stranger, ranks.options()));
    ASSERT_EQ(open.back()->send_some(std::as_bytes(std::span(words)), false).value(), words.size());
  }
  const auto rank0 = Communicator::form(ranks.transport(0), ranks.options_of(0));
  ASSERT_TRUE(rank0) << rank0.error().detail;
  rank1.join();
  ASSERT_TRUE(*formed) << formed->error().detail;
}

TEST(EncryptedRing, TellsOfANeighbourThatIsGoneWhileItComputes) {
  RingOfThreads ranks(2);
  ranks.options().encrypted = true;
  std::atomic<int> suspect{-1};
  std::vector<std::unique_ptr<Communicator>> rings(2);
  ranks.each_rank([&](int rank) {
    rings[static_cast<size_t>(rank)] = Communicator::form(ranks.transport(rank), ranks.options_of(rank)).value();
  });
  const auto watch = rings[0]->watch([&](const CollectiveError& error) {
    EXPECT_TRUE(error.ended);
    suspect = error.suspect_rank;
    suspect.notify_all();
  });
  rings[1].reset();
  suspect.wait(-1);
  EXPECT_EQ(suspect, 1);
}

}  // namespace
}  // namespace holdfast::worker

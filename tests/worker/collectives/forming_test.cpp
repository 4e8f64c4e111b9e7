// Forming a ring: the right ranks get in, strangers are kept out, and those kept out hold no rank up.
#include <gtest/gtest.h>

#include <future>
#include <latch>
#include <optional>

#include "tests/worker/collectives/faulty_proxy.h"
#include "tests/worker/collectives/ring_of_threads.h"

namespace holdfast::worker {
namespace {

using Kind = CollectiveError::Kind;
using std::chrono::milliseconds;
using std::chrono::seconds;
using Formed = CollectiveResult<std::unique_ptr<Communicator>>;

// Forms on all ranks at once, with each rank's own options.
std::vector<std::optional<Formed>> form_all(RingOfThreads& ranks, const std::function<void(RingOptions&)>& adjust) {
  std::vector<std::optional<Formed>> results(static_cast<size_t>(ranks.world_size()));
  ranks.each_rank([&](int rank) {
    RingOptions options = ranks.options_of(rank);
    adjust(options);
    results[static_cast<size_t>(rank)].emplace(Communicator::form(ranks.transport(rank), options));
  });
  return results;
}

void expect_sums(RingOfThreads& ranks) {
  ranks.run([](Communicator& ring) {
    std::vector<int32_t> buffer(100, 1);
    const auto summed = sum_in_place(ring, buffer);
    ASSERT_TRUE(summed) << summed.error().detail;
    EXPECT_EQ(buffer[0], ring.world_size());
  });
}

// Waits until somebody has connected to this transport.
void wait_for_knock(Transport& transport) {
  ASSERT_TRUE(transport.wait({}, true, std::chrono::steady_clock::now() + seconds(20)));
}

TEST(Forming, AWorldOfOneNeedsNobody) {
  RingOfThreads ranks(1);
  expect_sums(ranks);
}

TEST(Forming, RefusesUnusableOptionsWithTheReason) {
  auto transport = loopback_transport();
  RingOptions options;
  options.addresses = {"127.0.0.1:1", "127.0.0.1:2"};
  EXPECT_EQ(Communicator::form(*transport, options).error().detail, "cannot form a ring: the generation has no secret");
  options.rank = 2;
  EXPECT_EQ(Communicator::form(*transport, options).error().detail, "cannot form a ring: rank 2 is not one of 2 addresses");
}

TEST(Forming, RefusesAWrongSecret) {
  RingOfThreads ranks(2);
  ranks.options().form_timeout = milliseconds(2000);
  const auto results = form_all(ranks, [](RingOptions& options) { options.secret = "secret " + std::to_string(options.rank); });
  int explained = 0;
  for (const auto& result : results) {
    ASSERT_FALSE(*result);
    EXPECT_EQ(result->error().kind, Kind::kHandshakeFailed);
    explained +=
        result->error().detail.find("refused: the secret of generation 1 is not that of this worker") != std::string::npos;
  }
  EXPECT_GE(explained, 1);  // the other may find the first one gone
}

TEST(Forming, TellsAnOldGenerationThatItIsOverAndWaitsForTheNewOne) {
  RingOfThreads ranks(2);
  std::optional<Formed> newer;
  std::jthread rank1([&] {
    RingOptions options = ranks.options_of(1);
    options.generation = 7;
    newer.emplace(Communicator::form(ranks.transport(1), options));
  });
  RingOptions options = ranks.options_of(0);
  options.generation = 6;
  const auto older = Communicator::form(ranks.transport(0), options);
  ASSERT_FALSE(older);
  EXPECT_EQ(older.error().kind, Kind::kHandshakeFailed);
  EXPECT_EQ(older.error().suspect_rank, 1);
  EXPECT_NE(older.error().detail.find("refused: generation 6 is over: this is generation 7"), std::string::npos)
      << older.error().detail;

  options.generation = 7;
  const auto caught_up = Communicator::form(ranks.transport(0), options);
  EXPECT_TRUE(caught_up) << caught_up.error().detail;
  rank1.join();
  EXPECT_TRUE(*newer) << newer->error().detail;
}

TEST(Forming, AnswersANewerGenerationThatCameBeforeItWasKnown) {
  RingOfThreads ranks(2);
  std::optional<Formed> early;
  std::jthread rank1([&] { early.emplace(Communicator::form(ranks.transport(1), ranks.options_of(1))); });
  wait_for_knock(ranks.transport(0));
  const auto late = Communicator::form(ranks.transport(0), ranks.options_of(0));
  EXPECT_TRUE(late) << late.error().detail;
  rank1.join();
  EXPECT_TRUE(*early) << early->error().detail;
}

TEST(Forming, DiscardsAStaleGenerationsConnectionThatWaitedInTheBacklog) {
  RingOfThreads ranks(2);
  auto stale_transport = loopback_transport();
  std::jthread stale([&] {
    RingOptions options = ranks.options_of(1);
    options.generation = 0;
    options.form_timeout = milliseconds(300);
    EXPECT_FALSE(Communicator::form(*stale_transport, options));
  });
  wait_for_knock(ranks.transport(0));
  expect_sums(ranks);
}

TEST(Forming, FailsAtTheDeadlineForAnotherJobWithTheReason) {
  RingOfThreads ranks(2);
  ranks.options().form_timeout = milliseconds(2000);
  const auto results = form_all(ranks, [](RingOptions& options) { options.job = "job " + std::to_string(options.rank); });
  int explained = 0;
  for (const auto& result : results) {
    ASSERT_FALSE(*result);
    explained += result->error().detail.find("not ready: this worker is in job job") != std::string::npos;
  }
  EXPECT_GE(explained, 1);
}

TEST(Forming, RefusesRanksThatAreNotNeighbours) {
  RingOfThreads ranks(3);
  std::swap(ranks.options().addresses[1], ranks.options().addresses[2]);
  ranks.options().form_timeout = milliseconds(300);
  for (const auto& result : form_all(ranks, [](RingOptions&) {})) {
    ASSERT_FALSE(*result);
    EXPECT_EQ(result->error().kind, Kind::kHandshakeFailed);
  }
}

TEST(Forming, DoesNotWaitForASuccessorThatIsDead) {
  auto transport = loopback_transport();
  const std::string nobody = loopback_transport()->address();  // closed again
  RingOptions options;
  options.addresses = {transport->address(), nobody};
  options.secret = "5ec2e7";
  options.form_timeout = std::chrono::hours(1);  // it must not come to that
  const auto result = Communicator::form(*transport, options);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().kind, Kind::kHandshakeFailed);
  EXPECT_EQ(result.error().suspect_rank, 1);
  EXPECT_EQ(result.error().detail,
            "forming generation 0: no connection to rank 1 (" + nobody + "): connect to " + nobody + ": Connection refused");
}

TEST(Forming, CanBeStopped) {
  RingOfThreads ranks(2);
  std::stop_source source;
  RingOptions options = ranks.options_of(0);
  options.stop = source.get_token();
  auto formed = std::async(std::launch::async, [&] { return Communicator::form(ranks.transport(0), options); });
  wait_for_knock(ranks.transport(1));  // it is under way
  source.request_stop();
  const auto result = formed.get();
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().kind, Kind::kAborted);
}

TEST(Forming, IsNotHeldUpByStrangers) {
  RingOfThreads ranks(3);
  auto stranger = loopback_transport();
  std::vector<std::unique_ptr<Connection>> open;
  for (int i = 0; i < 50; ++i) {
    open.push_back(stranger->connect(ranks.transport(i % 3).address()).value());  // says nothing
    auto garbage = stranger->connect(ranks.transport(i % 3).address()).value();
    const std::string request = "GET / HTTP/1.1\r\nHost: " + std::string(static_cast<size_t>(i * 10), 'x') + "\r\n\r\n";
    Transport::Interest interest{garbage.get(), true, false};
    ASSERT_TRUE(stranger->wait(std::span(&interest, 1), false, std::chrono::steady_clock::now() + seconds(5)));
    ASSERT_TRUE(garbage->send_some(std::as_bytes(std::span(request)), false));
    if (i % 2 == 0) open.push_back(std::move(garbage));  // the others are gone before they are answered
  }
  expect_sums(ranks);
}

TEST(Forming, SurvivesMoreSilentConnectionsThanItWaitsFor) {
  RingOfThreads ranks(2);
  auto stranger = loopback_transport();
  std::vector<std::unique_ptr<Connection>> open;
  open.reserve(400);
  for (int i = 0; i < 400; ++i) open.push_back(stranger->connect(ranks.transport(0).address()).value());
  expect_sums(ranks);
}

}  // namespace
}  // namespace holdfast::worker

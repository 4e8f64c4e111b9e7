// The TCP transport by its contract: waiting and waking, and how connections end.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <thread>

#include "tests/worker/collectives/ring_of_threads.h"

namespace holdfast::worker {
namespace {

using ErrorKind = TransportError::Kind;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

Deadline soon() {
  return steady_clock::now() + milliseconds(20);
}
Deadline late() {
  return steady_clock::now() + std::chrono::seconds(20);
}

struct ConnectedPair {
  std::unique_ptr<Transport> transport = loopback_transport();
  std::unique_ptr<Connection> client, server;

  ConnectedPair() {
    client = transport->connect(transport->address()).value();
    if (!transport->wait({}, true, late())) throw std::runtime_error("nobody came");
    server = transport->accept_now().value();
  }
};

TEST(TcpTransport, ALossIsSeenThoughThereIsStillSomethingToRead) {
  ConnectedPair other, pair;
  const std::byte byte{1};
  ASSERT_EQ(pair.server->send_some(std::span(&byte, 1), false), 1U);
  Connection* const watched[] = {other.client.get(), pair.client.get()};
  std::jthread closes([&](const std::stop_token&) { pair.server.reset(); });
  EXPECT_EQ(pair.transport->wait_for_lost_peer(watched, {}), 1U);
}

TEST(TcpTransport, TheWatchForALossEndsWhenItIsToldTo) {
  ConnectedPair pair;
  std::stop_source stop;
  Connection* const watched[] = {pair.client.get()};
  std::jthread stops([&](const std::stop_token&) { stop.request_stop(); });
  EXPECT_EQ(pair.transport->wait_for_lost_peer(watched, stop.get_token()), std::nullopt);
}

TEST(TcpTransport, ListensOnTheNamedInterface) {
  const auto transport = make_tcp_transport("lo", "unused");
  ASSERT_TRUE(transport) << transport.error().detail;
  EXPECT_TRUE((*transport)->address().starts_with("127.0.0.1:"));
}

TEST(TcpTransport, ListensOnTheFirstFreePortOfARange) {
  const auto some = make_tcp_transport("lo", "unused");
  ASSERT_TRUE(some);
  const int port = std::stoi((*some)->address().substr((*some)->address().rfind(':') + 1));
  if (port > 65000) GTEST_SKIP() << "no room above the port that the system picked, " << port;
  const PortRange range = {static_cast<uint16_t>(port), static_cast<uint16_t>(port + 50)};
  const auto next = make_tcp_transport("lo", "unused", range);
  ASSERT_TRUE(next) << next.error().detail;
  const int found = std::stoi((*next)->address().substr((*next)->address().rfind(':') + 1));
  EXPECT_GT(found, port);
  EXPECT_LE(found, port + 50);
  const auto taken = make_tcp_transport("lo", "unused", {range.first, range.first});
  ASSERT_FALSE(taken);
  EXPECT_NE(taken.error().detail.find("(--ring_port says where)"), std::string::npos) << taken.error().detail;
}

TEST(TcpTransport, RefusesAnUnknownInterfaceAndListsThoseThereAre) {
  const auto transport = make_tcp_transport("eth99", "127.0.0.1");
  ASSERT_FALSE(transport);
  EXPECT_TRUE(transport.error().detail.starts_with("there is no network interface \"eth99\"; this node has: "))
      << transport.error().detail;
  EXPECT_NE(transport.error().detail.find("lo"), std::string::npos);
}

TEST(TcpTransport, PicksTheAddressThatRoutesToTheServer) {
  for (const char* host : {"127.0.0.1", "localhost"}) {
    const auto transport = make_tcp_transport("", host);
    ASSERT_TRUE(transport) << transport.error().detail;
    const std::string address = (*transport)->address();
    EXPECT_TRUE(address.starts_with("127.0.0.1:") || address.starts_with("[::1]:")) << address;
  }
}

TEST(TcpTransport, SaysWhichHostItCannotResolve) {
  const auto transport = make_tcp_transport("", "no-such-host.invalid");
  ASSERT_FALSE(transport);
  EXPECT_NE(transport.error().detail.find("no-such-host.invalid"), std::string::npos);
}

TEST(TcpTransport, RefusesAnAddressThatIsTakenAndNamesIt) {
  const auto first = loopback_transport();
  const auto second = make_tcp_transport_at(first->address());
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().detail, "listen on " + first->address() + ": Address already in use");
}

TEST(TcpTransport, WaitEndsAtItsDeadline) {
  const auto transport = loopback_transport();
  EXPECT_EQ(transport->wait({}, true, soon()).error().kind, ErrorKind::kTimeout);
}

TEST(TcpTransport, WakeEndsThePresentOrTheNextWaitAndOnlyThat) {
  const auto transport = loopback_transport();
  transport->wake();
  transport->wake();
  EXPECT_EQ(transport->wait({}, true, late()).error().kind, ErrorKind::kWoken);
  EXPECT_EQ(transport->wait({}, true, soon()).error().kind, ErrorKind::kTimeout);
  std::jthread waker([&] { transport->wake(); });
  EXPECT_EQ(transport->wait({}, true, late()).error().kind, ErrorKind::kWoken);
}

TEST(TcpTransport, HasNobodyToAcceptUntilSomebodyConnects) {
  const auto transport = loopback_transport();
  EXPECT_EQ(transport->accept_now().value(), nullptr);
  const auto client = transport->connect(transport->address()).value();
  ASSERT_TRUE(transport->wait({}, true, late()));
  EXPECT_NE(transport->accept_now().value(), nullptr);
}

TEST(TcpTransport, TellsOfARefusedConnectionWithTheFirstBytes) {
  const auto transport = loopback_transport();
  const std::string nobody = loopback_transport()->address();
  const auto client = transport->connect(nobody).value();
  Transport::Interest interest{client.get(), false, true};
  ASSERT_TRUE(transport->wait(std::span(&interest, 1), false, late()));
  std::array<std::byte, 1> byte;
  const auto result = client->receive_some(byte);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().kind, ErrorKind::kRefused);
  EXPECT_EQ(result.error().detail, "connect to " + nobody + ": Connection refused");
}

TEST(TcpConnection, MovesWhatFitsAndThenNothing) {
  ConnectedPair pair;
  const std::vector<std::byte> bytes(1 << 20, std::byte{7});
  size_t sent = 0, received = 0;
  for (auto n = pair.client->send_some(bytes, false); *n > 0; n = pair.client->send_some(bytes, false)) sent += *n;
  EXPECT_GT(sent, 0u);
  std::vector<std::byte> arrived(1 << 20);
  while (received < sent) {
    Transport::Interest interest{pair.server.get(), false, true};
    ASSERT_TRUE(pair.transport->wait(std::span(&interest, 1), false, late()));
    received += pair.server->receive_some(arrived).value();
  }
  EXPECT_EQ(received, sent);
  EXPECT_EQ(pair.server->receive_some(arrived).value(), 0u);
}

TEST(TcpConnection, TellsThatTheOtherSideClosed) {
  ConnectedPair pair;
  pair.client.reset();
  Transport::Interest interest{pair.server.get(), false, true};
  ASSERT_TRUE(pair.transport->wait(std::span(&interest, 1), false, late()));
  std::array<std::byte, 1> byte;
  EXPECT_EQ(pair.server->receive_some(byte).error().kind, ErrorKind::kClosed);
}

TEST(TcpConnection, SendingToAClosedOneIsAnErrorAndNoSignal) {
  ConnectedPair pair;
  pair.server.reset();
  const std::vector<std::byte> bytes(1000);
  for (;;) {
    const auto sent = pair.client->send_some(bytes, false);
    if (sent) continue;
    EXPECT_EQ(sent.error().kind, ErrorKind::kClosed) << sent.error().detail;
    break;
  }
}

TEST(TcpConnection, KnowsThatBothEndsAreOnOneNode) {
  ConnectedPair pair;
  EXPECT_TRUE(pair.client->within_node());
  EXPECT_TRUE(pair.server->within_node());
}

TEST(TcpTransport, SaysAtOnceWhetherAPeerHasEnded) {
  ConnectedPair pair;
  const std::array<Connection*, 2> both{pair.client.get(), pair.client.get()};
  EXPECT_EQ(pair.transport->lost_peer(both), std::nullopt);
  pair.server.reset();
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(5);
  while (!pair.transport->lost_peer(both) && std::chrono::steady_clock::now() < until) std::this_thread::yield();
  EXPECT_EQ(pair.transport->lost_peer(both), 0U);
}

TEST(TcpTransport, NamesTheNodeByItsBootAndItsAddress) {
  const auto one = loopback_transport(), other = loopback_transport();
  EXPECT_THAT(one->node(), testing::HasSubstr(" 127.0.0.1"));
  EXPECT_EQ(one->node(), other->node()) << "on other ports of one node";
}

TEST(TcpTransport, SaysWhichAddressesRefuseConnections) {
  const auto here = loopback_transport();
  auto one = loopback_transport(), other = loopback_transport();
  const std::vector<std::string> addresses{one->address(), "nonsense", here->address(), other->address()};
  EXPECT_THAT(here->refusing(addresses, std::chrono::milliseconds(1000)), testing::IsEmpty());
  one.reset();
  EXPECT_THAT(here->refusing(addresses, std::chrono::milliseconds(1000)), testing::ElementsAre(0));
  other.reset();
  EXPECT_THAT(here->refusing(addresses, std::chrono::milliseconds(1000)), testing::ElementsAre(0, 3));
}

}  // namespace
}  // namespace holdfast::worker

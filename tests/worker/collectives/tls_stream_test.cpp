// Encrypted connections by the transport's contract: no wake-up is lost, no byte is wrong, and nobody without the key gets in.
//
// Between the two ends stands a wire that the test moves byte by byte: halves of records, stalls, cuts and altered bytes come
// when the test says so.
#include "worker/transport/tls_stream.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <openssl/evp.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <optional>
#include <random>
#include <thread>

#include "tests/worker/collectives/ring_of_threads.h"

namespace holdfast::worker {
namespace {

using ErrorKind = TransportError::Kind;
using std::chrono::milliseconds;
using std::chrono::steady_clock;
using testing::HasSubstr;

constexpr StreamKey kKey{std::byte{7}, std::byte{1}}, kOtherKey{std::byte{7}, std::byte{2}};

Deadline in_a_moment() {
  return steady_clock::now() + milliseconds(30);
}
Deadline in_the_end() {
  return steady_clock::now() + std::chrono::seconds(20);
}

std::vector<std::byte> numbered(size_t count) {
  std::vector<std::byte> bytes(count);
  for (size_t i = 0; i < count; ++i) bytes[i] = static_cast<std::byte>((i * 2654435761U) >> 13);
  return bytes;
}

struct Joined {
  std::unique_ptr<Connection> client, server;
};
Joined joined_over(Transport& transport) {
  Joined joined;
  joined.client = transport.connect(transport.address()).value();
  if (!transport.wait({}, true, in_the_end())) throw std::runtime_error("nobody came");
  joined.server = transport.accept_now().value();
  return joined;
}

// The client and the server, and between them the wire.
class OverAWire : public testing::Test {
 protected:
  std::unique_ptr<Transport> transport = loopback_transport();
  Joined near = joined_over(*transport), far = joined_over(*transport);  // the client's half of the wire, and the server's
  Connection &client = *near.client, &server = *far.server;

  // At most so many bytes each way, of those that are there or come within a moment. Returns how many there were.
  size_t carry(size_t most = SIZE_MAX) {
    const size_t there = carry(*near.server, *far.client, most), back = carry(*far.client, *near.server, most);
    return there + back;
  }
  size_t carry_to_server(size_t most) { return carry(*near.server, *far.client, most); }

  // Both handshakes, as far as they go.
  void encrypt(const StreamKey& at_server = kKey) {
    for (const Deadline until = in_the_end(); steady_clock::now() < until;) {
      client_through = client.encrypt(kKey, true);
      server_through = server.encrypt(at_server, false);
      carry();
      const bool failed = !client_through || !server_through;
      if (failed || (*client_through && *server_through)) return;
    }
  }
  void expect_encrypted() {
    encrypt();
    ASSERT_TRUE(client_through) << client_through.error().detail;
    ASSERT_TRUE(server_through) << server_through.error().detail;
    ASSERT_THAT(client.encryption(), HasSubstr("TLS 1.3 with TLS_"));
    ASSERT_EQ(client.encryption(), server.encryption());
  }

  TransportResult<void> wait_to_receive(Connection& at, Deadline until) {
    const Transport::Interest interest{&at, false, true};
    return transport->wait(std::span(&interest, 1), false, until);
  }
  void send_all(Connection& from, std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
      const auto sent = from.send_some(bytes, false);
      ASSERT_TRUE(sent) << sent.error().detail;
      bytes = bytes.subspan(*sent);
      carry();
    }
  }

  TransportResult<bool> client_through{false}, server_through{false};

 private:
  size_t carry(Connection& from, Connection& to, size_t most) {
    std::vector<std::byte> bytes(std::min<size_t>(most, 64 << 10));
    size_t carried = 0;
    while (carried < most) {
      const auto n = from.receive_some(std::span(bytes).first(std::min(bytes.size(), most - carried)));
      if (!n || *n == 0) break;
      for (size_t sent = 0; sent < *n;) {
        const auto now = to.send_some(std::span(bytes).first(*n).subspan(sent), false);
        if (!now) return carried;
        sent += *now;
        if (*now == 0) std::this_thread::yield();
      }
      carried += *n;
    }
    return carried;
  }
};

TEST_F(OverAWire, BothEndsComeToOneKeyAndMoveBytesBothWays) {
  expect_encrypted();
  const auto bytes = numbered(1000);
  for (auto [from, to] : {std::pair(&client, &server), std::pair(&server, &client)}) {
    send_all(*from, bytes);
    std::vector<std::byte> arrived(1000);
    size_t received = 0;
    while (received < arrived.size()) {
      ASSERT_TRUE(wait_to_receive(*to, in_the_end()));
      received += to->receive_some(std::span(arrived).subspan(received)).value();
    }
    EXPECT_EQ(arrived, bytes);
  }
}

TEST_F(OverAWire, AReaderOfSingleBytesIsWokenForEach) {
  expect_encrypted();
  const auto bytes = numbered(1700);
  send_all(client, std::span(bytes).first(1000));
  send_all(client, std::span(bytes).subspan(1000));  // a record of its own
  std::vector<std::byte> arrived;
  while (arrived.size() < bytes.size()) {
    carry();
    ASSERT_TRUE(wait_to_receive(server, in_the_end())) << "after " << arrived.size() << " bytes";
    std::byte byte;
    if (server.receive_some(std::span(&byte, 1)).value() == 1) arrived.push_back(byte);
  }
  EXPECT_EQ(arrived, bytes);
  std::byte byte;
  EXPECT_EQ(server.receive_some(std::span(&byte, 1)).value(), 0U);
  EXPECT_EQ(wait_to_receive(server, in_a_moment()).error().kind, ErrorKind::kTimeout) << "nothing is left";
}

TEST_F(OverAWire, HalfARecordWakesNobodyAndIsNotSpunUpon) {
  expect_encrypted();
  const auto bytes = numbered(500);
  ASSERT_EQ(client.send_some(bytes, false).value(), bytes.size());
  std::vector<std::byte> arrived(500);
  for (const size_t part : {1, 4, 100, 300}) {
    for (size_t moved = 0; moved == 0;) moved = carry_to_server(part);
    ASSERT_TRUE(wait_to_receive(server, in_the_end()));
    EXPECT_EQ(server.receive_some(arrived).value(), 0U);
    EXPECT_EQ(wait_to_receive(server, in_a_moment()).error().kind, ErrorKind::kTimeout) << part;
  }
  carry();
  ASSERT_TRUE(wait_to_receive(server, in_the_end()));
  EXPECT_EQ(server.receive_some(arrived).value(), bytes.size());
  EXPECT_EQ(arrived, bytes);
}

TEST_F(OverAWire, AStalledPeerTakesNoMoreAndThenAllInOrder) {
  expect_encrypted();
  const auto bytes = numbered(size_t{24} << 20);
  size_t sent = 0;
  const auto rest = [&] { return std::span(bytes).subspan(sent); };
  for (size_t n = 1; n > 0 && !rest().empty(); sent += n) n = client.send_some(rest(), false).value();
  ASSERT_LT(sent, bytes.size()) << "the sockets hold all of it: the test needs more bytes";
  EXPECT_EQ(sent % kRecordBytes, 0U) << "a record that the kernel has a part of is not taken";

  std::jthread wire([this](const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      if (carry_to_server(1 << 20) == 0) std::this_thread::sleep_for(milliseconds(1));
    }
  });
  std::vector<std::byte> arrived(bytes.size());
  size_t received = 0;
  while (received < bytes.size()) {
    const std::array<Transport::Interest, 2> interests{Transport::Interest{&server, false, true},
                                                       Transport::Interest{&client, true, true}};
    ASSERT_TRUE(transport->wait(std::span(interests).first(rest().empty() ? 1 : 2), false, in_the_end()));
    std::byte nothing;
    ASSERT_EQ(client.receive_some(std::span(&nothing, 1)).value(), 0U);
    if (!rest().empty()) sent += client.send_some(rest(), false).value();
    const size_t most = std::min<size_t>(bytes.size() - received, 30000);
    received += server.receive_some(std::span(arrived).subspan(received, most)).value();
  }
  EXPECT_EQ(arrived, bytes);
}

TEST_F(OverAWire, AWakeIsSeenThoughSomethingIsHeld) {
  expect_encrypted();
  send_all(client, numbered(100));
  std::byte byte;
  while (server.receive_some(std::span(&byte, 1)).value() == 0) ASSERT_TRUE(wait_to_receive(server, in_the_end()));
  transport->wake();
  EXPECT_EQ(wait_to_receive(server, in_the_end()).error().kind, ErrorKind::kWoken);
  EXPECT_TRUE(wait_to_receive(server, in_a_moment()));
}

TEST_F(OverAWire, ACutIsAClosedConnectionWhereverItFalls) {
  expect_encrypted();
  send_all(client, numbered(100));
  ASSERT_EQ(client.send_some(numbered(1000), false).value(), 1000U);
  for (size_t moved = 0; moved == 0;) moved = carry_to_server(500);
  far.client.reset();
  std::vector<std::byte> arrived(1100);
  size_t received = 0;
  while (true) {
    ASSERT_TRUE(wait_to_receive(server, in_the_end()));
    const auto n = server.receive_some(std::span(arrived).subspan(received));
    if (!n) {
      EXPECT_EQ(n.error().kind, ErrorKind::kClosed);
      EXPECT_EQ(n.error().detail, server.peer() + " closed the connection");
      break;
    }
    received += *n;
  }
  EXPECT_EQ(received, 100U) << "half a record is nothing";
  EXPECT_FALSE(server.send_some(arrived, false)) << "and no signal";
}

TEST_F(OverAWire, ALossIsSeenThoughThereIsStillSomethingToRead) {
  expect_encrypted();
  send_all(client, numbered(10));
  near.client.reset();
  std::jthread wire([this] {
    carry();
    far.client.reset();
  });
  Connection* const watched[] = {&server};
  EXPECT_EQ(transport->wait_for_lost_peer(watched, {}), 0U);
  wire.join();
  EXPECT_EQ(transport->lost_peer(watched), 0U);
  std::vector<std::byte> arrived(20);
  EXPECT_EQ(server.receive_some(arrived).value(), 10U);
  EXPECT_EQ(server.receive_some(arrived).error().kind, ErrorKind::kClosed);
}

TEST_F(OverAWire, AWrongKeyIsRefusedByBothEnds) {
  encrypt(kOtherKey);
  ASSERT_FALSE(server_through) << "the client's proof is of another key";
  EXPECT_THAT(server_through.error().detail, HasSubstr("TLS handshake with " + server.peer()));
  EXPECT_EQ(server_through.error().kind, ErrorKind::kFailed);
  carry();
  for (client_through = client.encrypt(kKey, true); client_through && !*client_through;
       client_through = client.encrypt(kKey, true))
    carry();
  ASSERT_FALSE(client_through);
  EXPECT_EQ(client.encryption(), "");
  std::array<std::byte, 4> some{};
  EXPECT_FALSE(client.send_some(some, false)) << "nothing goes out, plain or sealed";
}

TEST_F(OverAWire, PlainBytesAreNoHandshake) {
  ASSERT_TRUE(client.send_some(numbered(100), false));
  TransportResult<bool> through{false};
  for (const Deadline until = in_the_end(); through && steady_clock::now() < until; through = server.encrypt(kKey, false))
    carry();
  ASSERT_FALSE(through);
  EXPECT_THAT(through.error().detail, HasSubstr("TLS refuses the bytes that came"));
}

// The positions from the handshake on: each end has an error then, or what it received is right as far as it goes.
TEST(EncryptedConnection, ThatIsAlteredOnTheWayGivesNoWrongByte) {
  const unsigned seed = std::random_device{}();
  std::mt19937 random(seed);
  const auto bytes = numbered(40000);
  for (int trial = 0; trial < 60; ++trial) {
    const size_t at = trial < 20 ? static_cast<size_t>(trial) * 17 : random() % bytes.size();
    SCOPED_TRACE(testing::Message() << "seed " << seed << ", byte " << at);
    const auto transport = loopback_transport();
    Joined near = joined_over(*transport), far = joined_over(*transport);
    size_t passed = 0, received = 0, sent = 0;
    std::vector<std::byte> arrived(bytes.size()), carried(70000);
    std::optional<TransportError> failed;
    for (const Deadline until = in_the_end(); !failed && received < bytes.size() && steady_clock::now() < until;) {
      const auto client_through = near.client->encrypt(kKey, true), server_through = far.server->encrypt(kKey, false);
      if (!client_through || !server_through) failed = (client_through ? server_through : client_through).error();
      if (failed) break;
      if (*client_through && sent < bytes.size()) {
        const auto n = near.client->send_some(std::span(bytes).subspan(sent), false);
        if (!n) failed = n.error();
        if (n) sent += *n;
      }
      if (const auto n = near.server->receive_some(carried); n && *n > 0) {
        if (at >= passed && at < passed + *n) carried[at - passed] ^= std::byte{4};
        passed += *n;
        ASSERT_EQ(far.client->send_some(std::span(carried).first(*n), false).value(), *n);
      }
      if (const auto n = far.client->receive_some(carried); n && *n > 0) {
        ASSERT_EQ(near.server->send_some(std::span(carried).first(*n), false).value(), *n);
      }
      if (!*server_through) continue;
      const auto n = far.server->receive_some(std::span(arrived).subspan(received));
      if (!n) failed = n.error();
      if (n) received += *n;
    }
    ASSERT_TRUE(failed) << received << " bytes arrived, and " << passed << " passed";
    EXPECT_LT(received, bytes.size());
    EXPECT_TRUE(std::equal(arrived.begin(), arrived.begin() + static_cast<std::ptrdiff_t>(received), bytes.begin()));
    EXPECT_THAT(failed->detail, HasSubstr("127.0.0.1:")) << "it names the peer";
  }
}

// Both ends over a pair of sockets, without a transport.
struct Streams {
  explicit Streams(uint64_t records_of_a_key) {
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) != 0) throw std::runtime_error("no sockets");
    from.emplace(ends[0], "the reader", kKey, true, records_of_a_key);
    to.emplace(ends[1], "the writer", kKey, false);
    for (bool through = false; !through;) {
      const bool here = from->shake_hands().value(), there = to->shake_hands().value();
      through = here && there;
    }
  }
  ~Streams() {
    from.reset();
    to.reset();
    close(ends[0]);
    close(ends[1]);
  }
  size_t on_the_way() const {
    int bytes = 0;
    return ioctl(ends[1], FIONREAD, &bytes) == 0 ? static_cast<size_t>(bytes) : 0;
  }

  int ends[2] = {-1, -1};
  std::optional<TlsStream> from, to;
};

TEST(TlsStream, ChangesItsKeyAfterSoManyRecordsAndLosesNothing) {
  const auto bytes = numbered(1000);
  size_t of_one_key = 0, of_many = 0;
  for (const uint64_t records_of_a_key : {kRecordsOfAKey, uint64_t{2}}) {
    Streams streams(records_of_a_key);
    size_t on_the_way = 0;
    for (int i = 0; i < 50; ++i) {
      ASSERT_EQ(streams.from->send_some(bytes, false).value(), bytes.size());
      on_the_way += streams.on_the_way();
      std::vector<std::byte> arrived(bytes.size());
      size_t received = 0;
      while (received < arrived.size()) received += streams.to->receive_some(std::span(arrived).subspan(received)).value();
      ASSERT_EQ(arrived, bytes) << "message " << i;
    }
    (records_of_a_key == 2 ? of_many : of_one_key) = on_the_way;
  }
  EXPECT_GE(of_many, of_one_key + 24 * 20) << "24 messages of TLS that change the key";
}

TEST(TlsStream, TakesNoCertificateForTheKey) {
  const auto key = std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)>(EVP_EC_gen("P-256"), EVP_PKEY_free);
  const auto own = std::unique_ptr<X509, decltype(&X509_free)>(X509_new(), X509_free);
  X509_gmtime_adj(X509_getm_notBefore(own.get()), 0);
  X509_gmtime_adj(X509_getm_notAfter(own.get()), 3600);
  X509_set_pubkey(own.get(), key.get());
  X509_sign(own.get(), key.get(), EVP_sha256());
  const auto context = std::unique_ptr<SSL_CTX, decltype(&SSL_CTX_free)>(SSL_CTX_new(TLS_server_method()), SSL_CTX_free);
  ASSERT_EQ(SSL_CTX_use_certificate(context.get(), own.get()), 1);
  ASSERT_EQ(SSL_CTX_use_PrivateKey(context.get(), key.get()), 1);
  const auto stranger = std::unique_ptr<SSL, decltype(&SSL_free)>(SSL_new(context.get()), SSL_free);
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends), 0);
  SSL_set_fd(stranger.get(), ends[1]);
  SSL_set_accept_state(stranger.get());
  {
    TlsStream stream(ends[0], "the stranger", kKey, true);
    TransportResult<bool> through{false};
    for (int i = 0; i < 10 && through && !*through; ++i) {
      through = stream.shake_hands();
      SSL_do_handshake(stranger.get());
    }
    ASSERT_FALSE(through);
    EXPECT_THAT(through.error().detail, HasSubstr("certificate verify failed"));
  }
  close(ends[0]);
  close(ends[1]);
}

}  // namespace
}  // namespace holdfast::worker

// Two ends on loopback, strangers, and peers that stop in the middle. The tests check that a speed is measured, not which.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <functional>
#include <nlohmann/json.hpp>
#include <thread>

#include "ops/cli/netcheck/exchange.h"
#include "tests/ops/cli/cli_runner.h"

namespace holdfast::ops {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;
using Json = nlohmann::json;

NetClock::time_point soon() {
  return NetClock::now() + std::chrono::seconds(20);
}

// A peer that listens on loopback, and calls `serve` with the first connection.
class Listening {
 public:
  explicit Listening(std::function<void(const Socket&)> serve)
      : listener_(*listen_on({"127.0.0.1", "0"})), thread_([this, serve = std::move(serve)] {
          const auto peer = accept_from(listener_, soon());
          if (peer) serve(*peer);
        }) {}
  ~Listening() { thread_.join(); }
  std::string address() const { return own_address(listener_); }
  Socket connect() const { return *connect_to(*parse_host_port(address()), soon()); }

 private:
  Socket listener_;
  std::thread thread_;
};

TEST(Netcheck, MeasuresBothWaysAloneAndTogether) {
  NetResult<void> answered = tl::unexpected(std::string("not asked"));
  {
    const Listening other([&](const Socket& peer) { answered = answer_netcheck(peer); });
    const Socket peer = other.connect();
    const auto figures = ask_netcheck(peer, 0.1);
    ASSERT_TRUE(figures.has_value()) << figures.error();
    for (const double rate : {figures->there, figures->back, figures->both_there, figures->both_back}) EXPECT_GT(rate, 0);
    EXPECT_GT(figures->round_trip_s, 0);
  }
  EXPECT_TRUE(answered.has_value()) << answered.error();
}

TEST(Netcheck, TheCommandPrintsALinkThatThePlannerTakes) {
  const Listening other([](const Socket& peer) { EXPECT_TRUE(answer_netcheck(peer).has_value()); });
  const Said said = holdfast({"netcheck", other.address(), "--seconds", "0.1", "--json"});
  ASSERT_EQ(said.exit_code, 0) << said.err;
  const Json found = Json::parse(said.out);
  EXPECT_GT(found["link_mb_s"].get<double>(), 0);
  EXPECT_GT(found["rtt_ms"].get<double>(), 0);
  EXPECT_DOUBLE_EQ(found["link_mb_s"].get<double>() * 1e6,
                   std::min(found["both_there_bytes_per_s"].get<double>(), found["both_back_bytes_per_s"].get<double>()));
}

TEST(Netcheck, TellsPeopleHowToGoOn) {
  const Listening other([](const Socket& peer) { EXPECT_TRUE(answer_netcheck(peer).has_value()); });
  const Said said = holdfast({"netcheck", other.address(), "--seconds", "0.1"});
  EXPECT_EQ(said.exit_code, 0) << said.err;
  for (const char* part : {"round trip", "both at once", "holdfast plan --link_mb_s "}) EXPECT_THAT(said.out, HasSubstr(part));
}

// The peer answers two ping commands, each with its number.
TEST(Netcheck, AFewPingsTellHowManyFitInASecond) {
  std::vector<int64_t> counts;
  {
    const Listening other([&](const Socket& peer) {
      EXPECT_TRUE(read_line(peer, 100, soon()).has_value());
      EXPECT_TRUE(write_all(peer, "holdfast-netcheck 1\n", soon()).has_value());
      for (int command = 0; command < 2; ++command) {
        const std::string line = read_line(peer, 100, soon()).value_or("");
        ASSERT_THAT(line, StartsWith("ping "));
        counts.push_back(std::stoll(line.substr(5)));
        for (int64_t i = 0; i < counts.back(); ++i) {
          EXPECT_TRUE(read_line(peer, 0, soon()).has_value());
          EXPECT_TRUE(write_all(peer, "\n", soon()).has_value());
        }
      }
    });
    const Socket peer = other.connect();
    EXPECT_FALSE(ask_netcheck(peer, 0.1).has_value()) << "nothing is moved";
  }
  ASSERT_EQ(counts.size(), 2U);
  EXPECT_EQ(counts[0], 5);
  EXPECT_GE(counts[1], 5);
  EXPECT_LE(counts[1], 200);
  EXPECT_EQ(pings_for(0.0002), 200);
  EXPECT_EQ(pings_for(0.02), 50);
  EXPECT_EQ(pings_for(1.5), 5) << "seven and a half seconds: within the ten that they have";
}

// The reply of the answering side to these first bytes.
std::string answer_to(const std::string& bytes) {
  const Listening other([](const Socket& peer) { EXPECT_FALSE(answer_netcheck(peer).has_value()); });
  const Socket peer = other.connect();
  EXPECT_TRUE(write_all(peer, bytes, soon()).has_value());
  return read_line(peer, 300, soon()).value_or("");
}

TEST(Netcheck, AStrangerIsRefusedWithASentence) {
  EXPECT_THAT(answer_to("GET / HTTP/1.1\n"), HasSubstr("refused: this port answers `holdfast netcheck` and nobody else"));
  EXPECT_THAT(answer_to("holdfast-netcheck 2\n"), HasSubstr("run the same holdfast on both"));
  EXPECT_THAT(answer_to(std::string(5000, 'x')), HasSubstr("a line of more than 200 bytes"));
}

TEST(Netcheck, RequestsHaveBounds) {
  const auto error_of = [](const std::string& command) {
    std::string error;
    {
      const Listening other([&](const Socket& peer) {
        const auto answered = answer_netcheck(peer);
        error = answered ? "" : answered.error();
      });
      const Socket peer = other.connect();
      EXPECT_TRUE(write_all(peer, "holdfast-netcheck 1\n" + command + "\n", soon()).has_value());
      EXPECT_EQ(read_line(peer, 100, soon()).value_or(""), "holdfast-netcheck 1");
      EXPECT_FALSE(read_line(peer, 100, soon()).has_value()) << "the connection ends";
    }
    return error;
  };
  EXPECT_THAT(error_of("ping 1000000000"), HasSubstr("1000000000 pings are out of range"));
  EXPECT_THAT(error_of("ping -5"), HasSubstr("out of range"));
  EXPECT_THAT(error_of("move in 999999999"), HasSubstr("999999999 ms"));
  EXPECT_THAT(error_of("move sideways 1000"), HasSubstr("sideways"));
  EXPECT_THAT(error_of("read /etc/passwd"), HasSubstr("asked for what there is not"));
}

TEST(Netcheck, APeerThatIsNotNetcheckIsNamed) {
  const Listening other([](const Socket& peer) { EXPECT_TRUE(write_all(peer, "SSH-2.0-OpenSSH\n", soon()).has_value()); });
  const Said said = holdfast({"netcheck", other.address(), "--seconds", "0.1"});
  EXPECT_EQ(said.exit_code, 3);
  EXPECT_THAT(said.err, HasSubstr("is no `holdfast netcheck --listen`"));
}

TEST(Netcheck, APeerThatHangsUpInTheMiddleIsAnError) {
  const Listening other([](const Socket& peer) {
    EXPECT_TRUE(read_line(peer, 100, soon()).has_value());
    EXPECT_TRUE(write_all(peer, "holdfast-netcheck 1\n", soon()).has_value());
    EXPECT_TRUE(read_line(peer, 100, soon()).has_value());  // and hangs up instead of answering pings
  });
  const Socket peer = other.connect();
  EXPECT_FALSE(ask_netcheck(peer, 0.1).has_value());
}

TEST(Netcheck, WithoutAPeerExits3AndSaysWhatToRun) {
  std::string address;
  {
    const auto gone = listen_on({"127.0.0.1", "0"});
    address = own_address(*gone);
  }
  const Said said = holdfast({"netcheck", address});
  EXPECT_EQ(said.exit_code, 3);
  EXPECT_THAT(said.err, HasSubstr("holdfast netcheck --listen 0.0.0.0:" + address.substr(address.rfind(':') + 1)));
}

TEST(Netcheck, MistakesAreNamedAndExit2) {
  const std::pair<std::vector<std::string>, const char*> mistakes[] = {
      {{"netcheck"}, "which node?"},
      {{"netcheck", "node2"}, "node2: expected HOST:PORT"},
      {{"netcheck", "node2:99999"}, "expected HOST:PORT"},
      {{"netcheck", "127.0.0.1:1", "--seconds", "1000"}, "--seconds: 1000 is out of range: 0.1 to 30"},
      {{"netcheck", "127.0.0.1:1", "--seconds", "nan"}, "--seconds: nan is out of range"},
      {{"netcheck", "--listen", "203.0.113.9:7071"}, "cannot listen on 203.0.113.9:7071"},
  };
  for (const auto& [arguments, says] : mistakes) {
    const Said said = holdfast(arguments);
    EXPECT_EQ(said.exit_code, 2) << says;
    EXPECT_THAT(said.err, HasSubstr(says));
  }
}

TEST(Netcheck, AnAddressThatNeverAnswersLeavesTimeForTheOthers) {
  const NetClock::time_point now{};
  const auto deadline = now + std::chrono::seconds(10);
  EXPECT_EQ(turn_ends(now, deadline, 4), now + std::chrono::milliseconds(2500));
  EXPECT_EQ(turn_ends(now + std::chrono::seconds(4), deadline, 3), now + std::chrono::seconds(6));
  EXPECT_EQ(turn_ends(now + std::chrono::seconds(6), deadline, 1), deadline);
}

TEST(Netcheck, AnErrorOfOneConnectionIsNotAnErrorOfTheListener) {
  for (const int error : {EAGAIN, ECONNABORTED, EPROTO, EHOSTUNREACH, ENETDOWN}) EXPECT_TRUE(is_of_one_connection(error));
  for (const int error : {EMFILE, ENFILE, ENOMEM, EINVAL}) EXPECT_FALSE(is_of_one_connection(error));
}

TEST(Netcheck, ASocketThatCannotAcceptSaysSoAndDoesNotWait) {
  const auto listening = listen_on({"127.0.0.1", "0"});
  const auto connected = connect_to(*parse_host_port(own_address(*listening)), soon());
  const auto no_listener = accept_from(*listening, soon());
  ASSERT_TRUE(connected.has_value() && no_listener.has_value());
  ASSERT_TRUE(write_all(*connected, "x", soon()).has_value()) << "so that there is something to be woken by";
  const auto accepted = accept_from(*no_listener, soon());
  ASSERT_FALSE(accepted.has_value());
  EXPECT_THAT(accepted.error(), StartsWith("cannot accept: "));
}

TEST(Netcheck, NamesAnAddressThatAnotherNodeReaches) {
  EXPECT_EQ(address_from_elsewhere("0.0.0.0:7071", "node2"), "node2:7071");
  EXPECT_EQ(address_from_elsewhere("[::]:40001", "node2"), "node2:40001");
  EXPECT_EQ(address_from_elsewhere("10.0.0.2:7071", "node2"), "10.0.0.2:7071");
  EXPECT_EQ(address_from_elsewhere("[fd00::2]:7071", "node2"), "[fd00::2]:7071");
}

TEST(Netcheck, AddressesMayBeOfBothFamilies) {
  EXPECT_EQ(parse_host_port("[fd00::2]:7071")->host, "fd00::2");
  EXPECT_EQ(parse_host_port("node2:0")->port, "0");
  EXPECT_FALSE(parse_host_port(":7071").has_value());
  EXPECT_FALSE(parse_host_port("node2:70a").has_value());
}

}  // namespace
}  // namespace holdfast::ops

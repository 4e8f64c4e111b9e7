// Drills of a worker that consented to them: its own network fails, over real sockets.
#include "worker/drills/drills.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "tests/worker/collectives/ring_of_threads.h"

namespace holdfast::worker {
namespace {

using Kind = TransportError::Kind;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

Deadline late() {
  return steady_clock::now() + std::chrono::seconds(20);
}
Deadline soon() {
  return steady_clock::now() + milliseconds(20);
}

// A worker with drills and a neighbour without, connected.
class ADrilledWorker : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = (std::filesystem::temp_directory_path() / ("holdfast-drills-" + std::to_string(getpid()))).string();
    std::filesystem::create_directory(folder_);
    drills.emplace(folder_, "w1");
    worker = make_drill_transport(loopback_transport(), *drills);
    neighbour = loopback_transport();
    here = worker->connect(neighbour->address()).value();
    ASSERT_TRUE(neighbour->wait({}, true, late()));
    there = neighbour->accept_now().value();
  }
  void TearDown() override {
    here.reset();
    there.reset();
    worker.reset();
    std::filesystem::remove_all(folder_);
  }
  void begin(const std::string& fault) { std::ofstream(folder_ + "/w1." + fault); }
  void end(const std::string& fault) { std::filesystem::remove(folder_ + "/w1." + fault); }
  bool is_there(const std::string& fault) const { return std::filesystem::exists(folder_ + "/w1." + fault); }

  static size_t send(Connection& connection, const std::vector<std::byte>& bytes) {
    return connection.send_some(bytes, false).value();
  }
  static std::vector<std::byte> receive(Transport& transport, Connection& connection, size_t count) {
    std::vector<std::byte> bytes(count);
    for (size_t done = 0; done < count;) {
      const Transport::Interest interest{&connection, false, true};
      if (!transport.wait(std::span(&interest, 1), false, late())) throw std::runtime_error("nothing came");
      done += connection.receive_some(std::span(bytes).subspan(done)).value();
    }
    return bytes;
  }
  bool can_receive(Transport& transport, Connection& connection) {
    const Transport::Interest interest{&connection, false, true};
    const auto waited = transport.wait(std::span(&interest, 1), false, soon());
    if (!waited) {
      EXPECT_EQ(waited.error().kind, Kind::kTimeout);
    }
    return waited.has_value();
  }

  std::optional<Drills> drills;
  std::unique_ptr<Transport> worker, neighbour;
  std::unique_ptr<Connection> here, there;

 private:
  std::string folder_;
};

const std::vector<std::byte> kMessage(1000, std::byte{7});

TEST_F(ADrilledWorker, SaysThatItConsents) {
  ASSERT_TRUE(drills->consent());
  EXPECT_TRUE(is_there("consents"));
  const auto refused = Drills("/no/such/folder", "w1").consent();
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().find("cannot make /no/such/folder/w1.consents: No such file or directory"), std::string::npos)
      << refused.error();
}

TEST_F(ADrilledWorker, IsLikeAnyOtherWhileNoFileIsThere) {
  EXPECT_EQ(send(*here, kMessage), kMessage.size());
  EXPECT_EQ(receive(*neighbour, *there, kMessage.size()), kMessage);
  EXPECT_EQ(send(*there, kMessage), kMessage.size());
  EXPECT_EQ(receive(*worker, *here, kMessage.size()), kMessage);
  EXPECT_FALSE(here->within_node()) << "so that a ring checks what may be altered here";
}

TEST_F(ADrilledWorker, ThatIsCutOffNeitherSendsNorReceivesUntilItIsConnectedAgain) {
  begin("cut");
  EXPECT_EQ(send(*here, kMessage), 0U);
  EXPECT_EQ(send(*there, kMessage), kMessage.size()) << "what the neighbour sends is lost on the way, for all it knows";
  EXPECT_FALSE(can_receive(*worker, *here));
  std::vector<std::byte> bytes(1);
  EXPECT_EQ(here->receive_some(bytes), 0U);
  EXPECT_FALSE(can_receive(*neighbour, *there));
  end("cut");
  EXPECT_EQ(receive(*worker, *here, kMessage.size()), kMessage);
  EXPECT_EQ(send(*here, kMessage), kMessage.size());
}

TEST_F(ADrilledWorker, ThatIsCutOffMeetsNobody) {
  begin("cut");
  const auto connecting = neighbour->connect(worker->address()).value();
  EXPECT_EQ(worker->wait({}, true, soon()).error().kind, Kind::kTimeout);
  EXPECT_EQ(worker->accept_now().value(), nullptr);
  EXPECT_EQ(worker->connect(neighbour->address()).error().kind, Kind::kFailed);
  end("cut");
  ASSERT_TRUE(worker->wait({}, true, late()));
  EXPECT_NE(worker->accept_now().value(), nullptr);
}

TEST_F(ADrilledWorker, ThatIsCutOffEndsNoConnectionThatOthersCouldSeeEnd) {
  begin("cut");
  here.reset();
  EXPECT_FALSE(can_receive(*neighbour, *there)) << "no end is seen";
  end("cut");
  EXPECT_EQ(worker->accept_now().value(), nullptr);  // the first thing that it does afterwards
  EXPECT_TRUE(can_receive(*neighbour, *there));
  std::vector<std::byte> bytes(1);
  EXPECT_EQ(there->receive_some(bytes).error().kind, Kind::kClosed);
}

TEST_F(ADrilledWorker, ThatIsCutOffSeesNoLossUntilItIsConnectedAgain) {
  begin("cut");
  there.reset();
  Connection* const watched[] = {here.get()};
  std::stop_source stop;
  std::optional<size_t> lost;
  std::jthread watch([&] { lost = worker->wait_for_lost_peer(watched, stop.get_token()); });
  stop.request_stop();
  watch.join();
  EXPECT_FALSE(lost);
  end("cut");
  EXPECT_EQ(worker->wait_for_lost_peer(watched, {}), 0U);
}

TEST_F(ADrilledWorker, CanBeWokenWhileItIsCutOff) {
  begin("cut");
  worker->wake();
  const Transport::Interest interest{here.get(), false, true};
  EXPECT_EQ(worker->wait(std::span(&interest, 1), false, late()).error().kind, Kind::kWoken);
}

TEST_F(ADrilledWorker, AltersOneByteAndTakesTheFileAway) {
  begin("corrupt");
  EXPECT_EQ(send(*here, kMessage), kMessage.size());
  EXPECT_FALSE(is_there("corrupt"));
  EXPECT_EQ(send(*here, kMessage), kMessage.size());
  const auto received = receive(*neighbour, *there, 2 * kMessage.size());
  EXPECT_EQ(std::count(received.begin(), received.end(), kMessage[0]), 1999);
  EXPECT_NE(received[500], kMessage[0]);
}

TEST_F(ADrilledWorker, IsSlowerByARuleThatHoldsWhileItsFileIsThere) {
  const FaultRule rule = drills->slow_rule();
  EXPECT_EQ(rule.action, FaultRule::Action::kSlow);
  EXPECT_EQ(rule.point, "step");
  EXPECT_TRUE(rule.while_file.ends_with("/w1.slow"));
}

}  // namespace
}  // namespace holdfast::worker

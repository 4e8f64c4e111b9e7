// The leader as a service that stands by sees it: whether it answers, and whose silence counts.
#include "rendezvous/process/leader_watch.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <functional>
#include <thread>

#include "rendezvous/http/server.h"

namespace holdfast::rendezvous {
namespace {

using std::chrono::steady_clock;

class LeaderWatchTest : public ::testing::Test {
 protected:
  LeaderWatchTest() {
    HttpServerOptions options;
    options.listen = "127.0.0.1:0";
    auto started = HttpServer::start(options, [this](const HttpRequest&, const Reply& reply) {
      ++asked_;
      HttpResponse refusal;
      refusal.status = 503;
      reply(refusal);
    });
    server_ = *std::move(started);
    address_ = fmt::format("http://127.0.0.1:{}", server_->port());
  }
  static bool comes(const std::function<bool()>& what, std::chrono::milliseconds patience = std::chrono::seconds(20)) {
    const auto deadline = steady_clock::now() + patience;
    while (steady_clock::now() < deadline) {
      if (what()) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return false;
  }

  std::atomic<int> asked_ = 0;
  std::unique_ptr<HttpServer> server_;
  std::string address_;
};

TEST_F(LeaderWatchTest, ALeaderThatAnsweredAndFallsSilentIsUnansweredSinceItsLastAnswer) {
  LeaderWatch watch;
  const auto before = steady_clock::now();
  watch.look_at(address_);
  ASSERT_TRUE(comes([&] { return asked_ >= 3; }));  // one of the first two answers, of which one may be late, was noted then
  EXPECT_FALSE(watch.unanswered_since()) << "a refusal is an answer";
  server_.reset();
  const auto silent = steady_clock::now();
  ASSERT_TRUE(comes([&] { return watch.unanswered_since().has_value(); }));
  EXPECT_GE(*watch.unanswered_since(), before);
  EXPECT_LE(*watch.unanswered_since(), silent);
  watch.look_at("");
  EXPECT_FALSE(watch.unanswered_since());
}

TEST_F(LeaderWatchTest, TheSilenceOfOneThatNeverAnsweredTellsNothing) {
  server_.reset();
  LeaderWatch watch;
  watch.look_at(address_);
  EXPECT_FALSE(comes([&] { return watch.unanswered_since().has_value(); }, std::chrono::milliseconds(1200)));
}

}  // namespace
}  // namespace holdfast::rendezvous

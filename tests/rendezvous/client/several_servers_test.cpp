// The client with several servers, of which one leads.
#include "rendezvous/client/servers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <future>

#include "rendezvous/client/http_client.h"
#include "tests/rendezvous/client/raw_server.h"

namespace holdfast::rendezvous {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using std::chrono::steady_clock;
using ::testing::ElementsAre;

// The URL of a port of this machine on which nobody listens.
std::string closed_port() {
  const RawServer server([](RawConnection&) {});
  return server.url();
}

// Answers as a service that stands by does, with the leader's address.
void stand_by(RawConnection& connection, const std::string& leader) {
  const std::string body = R"({"status":503,"code":"not_leader","title":"x","detail":"another leads"})";
  connection.write("HTTP/1.1 503 X\r\nHoldfast-Leader: " + leader +
                   "\r\nContent-Type: application/problem+json\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" +
                   body);
}
void answer_in_term(RawConnection& connection, int term) {
  connection.write("HTTP/1.1 200 X\r\nHoldfast-Term: " + std::to_string(term) + "\r\nContent-Length: 2\r\n\r\n{}");
}

TEST(SeveralServers, ARequestGoesToTheOneThatLeads) {
  std::atomic<int> asked = 0;
  RawServer leader([&](RawConnection& connection) {
    while (!connection.read_request().empty()) {
      ++asked;
      answer_in_term(connection, 3);
    }
  });
  RawServer standby([&](RawConnection& connection) {
    while (!connection.read_request().empty()) stand_by(connection, leader.url());
  });
  HttpClient client(standby.url() + "," + closed_port() + "," + leader.url(), "");
  ASSERT_TRUE(client.request("POST", "/v1/jobs", "{}"));
  EXPECT_EQ(client.base_url(), leader.url());
  ASSERT_TRUE(client.request("POST", "/v1/jobs", "{}"));
  EXPECT_EQ(asked, 2);
  EXPECT_EQ(standby.connections(), 1) << "the leader is remembered";
}

TEST(SeveralServers, AConnectionFromBeforeASilenceIsNotUsedAgain) {
  RawServer server([&](RawConnection& connection) {
    while (!connection.read_request().empty()) answer_in_term(connection, 3);
  });
  const std::string all = server.url() + "," + closed_port();
  HttpClient client(all, "");
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(client.request("GET", "/"));
  EXPECT_EQ(server.connections(), 1);
  Servers::of(all)->note_silence(server.url());  // another client of the process waited in vain
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(client.request("GET", "/"));
  EXPECT_EQ(server.connections(), 2);
}

TEST(SeveralServers, AnAnswerOfAnEarlierTermDoesNotCount) {
  std::atomic<int> term = 5;
  RawServer woken([&](RawConnection& connection) {
    while (!connection.read_request().empty()) answer_in_term(connection, 4);
  });
  RawServer leader([&](RawConnection& connection) {
    while (!connection.read_request().empty()) answer_in_term(connection, term);
  });
  HttpClient client(leader.url() + "," + woken.url(), "");
  ASSERT_TRUE(client.request("GET", "/"));
  Servers::of(leader.url() + "," + woken.url())->leave(leader.url());
  ASSERT_TRUE(client.request("GET", "/"));
  EXPECT_EQ(client.base_url(), leader.url());
}

// As a service that stands by reads from the database.
void answer_from_beside(RawConnection& connection, const std::string& leader) {
  connection.write("HTTP/1.1 200 X\r\nHoldfast-Term: 3\r\nHoldfast-As-Of: 2026-03-01T12:00:00.000Z\r\nHoldfast-Leader: " +
                   leader + "\r\nContent-Length: 3\r\n\r\n[1]");
}

TEST(SeveralServers, AQuestionThatAStandbyAnswersIsPutToTheLeaderToo) {
  RawServer leader([&](RawConnection& connection) {
    while (!connection.read_request().empty()) answer_in_term(connection, 3);
  });
  RawServer standby([&](RawConnection& connection) {
    while (!connection.read_request().empty()) answer_from_beside(connection, leader.url());
  });
  HttpClient client(standby.url() + "," + leader.url(), "");
  const auto reply = client.request("GET", "/v1/jobs");
  ASSERT_TRUE(reply);
  EXPECT_EQ(reply->body, "{}");
  EXPECT_EQ(reply->as_of, "");
}

TEST(SeveralServers, AStandbysAnswerIsTakenWhereNobodyLeads) {
  RawServer standby([&](RawConnection& connection) {
    while (!connection.read_request().empty()) answer_from_beside(connection, "http://gone");
  });
  HttpClient client(standby.url() + "," + closed_port(), "");
  const auto reply = client.request("GET", "/v1/jobs");
  ASSERT_TRUE(reply);
  EXPECT_EQ(reply->body, "[1]");
  EXPECT_EQ(reply->as_of, "2026-03-01T12:00:00.000Z");
  EXPECT_EQ(reply->leader, "http://gone");
}

TEST(SeveralServers, EachHigherTermIsToldOnce) {
  std::vector<int64_t> told;
  Servers servers({"http://a"});
  EXPECT_TRUE(servers.note_term(4));  // of an earlier life
  servers.on_higher_term([&](int64_t term) { told.push_back(term); });
  EXPECT_FALSE(servers.note_term(3));
  EXPECT_TRUE(servers.note_term(4));
  EXPECT_TRUE(servers.note_term(6));
  EXPECT_TRUE(servers.note_term(6));
  EXPECT_THAT(told, ElementsAre(6));
}

// As a service that does not reach its database.
TEST(SeveralServers, ARequestThatWasRefusedBeforeAnythingWasDoneGoesToAnother) {
  std::atomic<bool> has_done_nothing = true;
  RawServer waits([&](RawConnection& connection) {
    while (!connection.read_request().empty()) {
      connection.write(std::string("HTTP/1.1 503 X\r\n") + (has_done_nothing ? "Holdfast-Nothing-Done: 1\r\n" : "") +
                       "Content-Type: application/problem+json\r\nContent-Length: 37\r\n\r\n" +
                       R"({"status":503,"code":"unavailable"}  )");
    }
  });
  std::atomic<int> asked = 0;
  RawServer leader([&](RawConnection& connection) {
    while (!connection.read_request().empty()) {
      ++asked;
      answer_in_term(connection, 3);
    }
  });
  const std::string both = waits.url() + "," + leader.url();
  EXPECT_TRUE(HttpClient(both, "").request("POST", "/v1/jobs", "{}"));
  EXPECT_EQ(asked, 1);
  has_done_nothing = false;
  Servers::of(both)->leave(leader.url());
  EXPECT_FALSE(HttpClient(both, "").request("POST", "/v1/jobs", "{}")) << "it may have been carried out";
  EXPECT_EQ(asked, 1);
}

TEST(SeveralServers, ARequestThatMayHaveBeenCarriedOutIsNotSentAgain) {
  std::atomic<int> asked = 0;
  const auto cut = [&](RawConnection& connection) { asked += connection.read_request().starts_with("POST") ? 1 : 0; };
  RawServer one(cut), two(cut);
  HttpClient client(one.url() + "," + two.url(), "");
  const auto reply = client.request("POST", "/v1/jobs", "{}");
  ASSERT_FALSE(reply);
  EXPECT_TRUE(reply.error().unreachable);
  EXPECT_EQ(asked, 1);
}

TEST(SeveralServers, AServerThatAnswersNothingIsLeft) {
  RawServer frozen([](RawConnection& connection) { connection.wait_closed(); });
  RawServer leader([](RawConnection& connection) {
    while (!connection.read_request().empty()) answer_in_term(connection, 1);
  });
  HttpClient client(frozen.url() + "," + leader.url(), "");
  const auto began = steady_clock::now();
  ASSERT_TRUE(client.request("GET", "/v1/jobs", "", "application/json", seconds(60)));
  EXPECT_LT(steady_clock::now() - began, seconds(30));
}

TEST(SeveralServers, ARequestThatWaitsMovesWithTheOthers) {
  RawServer old([](RawConnection& connection) {
    if (connection.read_request().starts_with("GET /healthz")) return connection.answer(200, "{}");
    connection.wait_closed();  // a long-poll
  });
  RawServer leader([](RawConnection& connection) {
    while (!connection.read_request().empty()) answer_in_term(connection, 2);
  });
  const std::string servers = old.url() + "," + leader.url();
  HttpClient poll(servers, "");
  auto waiting =
      std::async(std::launch::async, [&] { return poll.request("GET", "/poll", "", "application/json", seconds(60)); });
  ASSERT_EQ(waiting.wait_for(milliseconds(300)), std::future_status::timeout);
  Servers::of(servers)->leave(old.url());
  ASSERT_EQ(waiting.wait_for(seconds(20)), std::future_status::ready);
  EXPECT_TRUE(waiting.get());
}

TEST(SeveralServers, ALeaderThatComesIsWaitedFor) {
  std::atomic<bool> leads = false;
  RawServer one([&](RawConnection& connection) {
    while (!connection.read_request().empty()) {
      if (leads) {
        answer_in_term(connection, 2);
      } else {
        stand_by(connection, "");
      }
    }
  });
  HttpClient client(one.url() + "," + closed_port(), "");
  auto waiting = std::async(std::launch::async, [&] { return client.request("POST", "/v1/jobs", "{}"); });
  ASSERT_EQ(waiting.wait_for(milliseconds(700)), std::future_status::timeout);
  leads = true;
  EXPECT_TRUE(waiting.get());
}

TEST(SeveralServers, OneThatSaidNothingIsNotGoneBackToWhereAnotherStillNamesItAsTheLeader) {
  Servers servers({"http://a", "http://b", "http://c"});
  servers.note_silence("http://a");
  servers.leave("http://a");
  EXPECT_EQ(servers.current(), "http://b");
  servers.leave("http://b", "http://a");
  EXPECT_EQ(servers.current(), "http://c");
  servers.note_silence("http://b");
  servers.leave("http://c", "http://a");
  EXPECT_EQ(servers.current(), "http://c") << "it alone answers";
  servers.leave("http://c", "http://b");
  servers.leave("http://c");
  EXPECT_EQ(servers.current(), "http://a") << "nobody knows better: in turn";
}

TEST(SeveralServers, AFileHasOneInEachLine) {
  const std::string file = testing::TempDir() + "holdfast-servers-" + std::to_string(getpid());
  std::ofstream(file) << "# services\nnode1:7070\n\nhttps://node2:7070/\n";
  EXPECT_THAT(Servers::listed("@" + file), ElementsAre("http://node1:7070", "https://node2:7070"));
  EXPECT_THAT(Servers::listed("a:1, https://b"), ElementsAre("http://a:1", "https://b"));
  EXPECT_THAT(Servers::listed("@/no/such/file"), ElementsAre("http://@/no/such/file"));
  std::filesystem::remove(file);
}

}  // namespace
}  // namespace holdfast::rendezvous

// The client with servers that behave well and servers that do not.
#include "rendezvous/client/http_client.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <future>

#include "tests/rendezvous/client/raw_server.h"

namespace holdfast::rendezvous {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using std::chrono::steady_clock;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

// The URL of a port of this machine on which nobody listens.
std::string nowhere() {
  const RawServer server([](RawConnection&) {});
  return server.url();
}

TEST(HttpClient, SendsMethodPathTokenAndBody) {
  std::promise<std::string> seen;
  RawServer server([&](RawConnection& connection) {
    seen.set_value(connection.read_request());
    connection.answer(201, "{}");
  });
  HttpClient client(server.url(), "secret");
  client.set_header("Idempotency-Key", "k1");
  const auto reply = client.request("POST", "/v1/jobs", "{\"a\":1}");
  ASSERT_TRUE(reply) << reply.error().message();
  EXPECT_EQ(reply->status, 201);
  EXPECT_EQ(reply->content_type, "application/json");
  const std::string request = seen.get_future().get();
  EXPECT_THAT(request, HasSubstr("POST /v1/jobs HTTP/1.1\r\n"));
  EXPECT_THAT(request, HasSubstr("Authorization: Bearer secret\r\n"));
  EXPECT_THAT(request, HasSubstr("Content-Type: application/json\r\n"));
  EXPECT_THAT(request, HasSubstr("Idempotency-Key: k1\r\n"));
  EXPECT_THAT(request, HasSubstr("\r\n\r\n{\"a\":1}"));
  EXPECT_THAT(request, Not(HasSubstr("Expect:")));
}

TEST(HttpClient, ALineBreakInATokenBeginsNoHeader) {
  std::promise<std::string> seen;
  RawServer server([&](RawConnection& connection) {
    seen.set_value(connection.read_request());
    connection.answer(200, "{}");
  });
  HttpClient client(server.url(), "secret\r\nX-Evil: 1");
  ASSERT_TRUE(client.request("GET", "/"));
  EXPECT_THAT(seen.get_future().get(), Not(HasSubstr("\r\nX-Evil")));
}

TEST(HttpClient, KeepsItsConnection) {
  RawServer server([](RawConnection& connection) {
    while (!connection.read_request().empty()) connection.answer(200, "{}");
  });
  HttpClient client(server.url(), "");
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(client.request("GET", "/healthz"));
  EXPECT_EQ(server.connections(), 1);
}

TEST(HttpClient, TakesAServerWithoutAScheme) {
  EXPECT_EQ(HttpClient("10.0.0.1:7070/", "").base_url(), "http://10.0.0.1:7070");
}

TEST(HttpClient, ReadsTheLocation) {
  RawServer server([](RawConnection& connection) {
    connection.read_request();
    connection.write("HTTP/1.1 201 Created\r\nLOCATION:  /v1/jobs/j7 \r\nContent-Length: 0\r\n\r\n");
  });
  const auto reply = HttpClient(server.url(), "").request("POST", "/v1/jobs", "{}");
  ASSERT_TRUE(reply);
  EXPECT_EQ(reply->location, "/v1/jobs/j7");
}

TEST(HttpClient, AProblemIsDecoded) {
  RawServer server([](RawConnection& connection) {
    connection.read_request();
    connection.answer(422,
                      R"({"title":"Invalid","status":422,"detail":"the spec is wrong","code":"invalid_spec",)"
                      R"("errors":[{"field":"n_head","message":"6 does not divide n_embd 400"}]})",
                      "application/problem+json");
  });
  const auto reply = HttpClient(server.url(), "").request("POST", "/v1/jobs", "{}");
  ASSERT_FALSE(reply);
  EXPECT_FALSE(reply.error().unreachable);
  EXPECT_EQ(reply.error().problem.status, 422);
  EXPECT_EQ(reply.error().problem.code, "invalid_spec");
  EXPECT_EQ(reply.error().message(), "the spec is wrong\n  n_head: 6 does not divide n_embd 400");
}

TEST(HttpClient, AnErrorThatIsNotJsonKeepsItsStatusAndText) {
  RawServer server([](RawConnection& connection) {
    connection.read_request();
    connection.answer(502, "<html>Bad Gateway</html>", "text/html");
  });
  const auto reply = HttpClient(server.url(), "").request("GET", "/");
  ASSERT_FALSE(reply);
  EXPECT_FALSE(reply.error().unreachable);
  EXPECT_EQ(reply.error().problem.status, 502);
  EXPECT_THAT(reply.error().message(), HasSubstr("Bad Gateway"));
}

TEST(HttpClient, AnErrorNestedWithoutEndIsOnlyItsStatus) {
  const std::string deep = R"({"title":)" + std::string(400'000, '[') + std::string(400'000, ']') + "}";
  RawServer server([&](RawConnection& connection) {
    connection.read_request();
    connection.answer(500, deep);
  });
  const auto reply = HttpClient(server.url(), "").request("GET", "/");
  ASSERT_FALSE(reply);
  EXPECT_FALSE(reply.error().unreachable);
  EXPECT_EQ(reply.error().problem.status, 500);
  EXPECT_EQ(reply.error().problem.title, "");
}

TEST(HttpClient, AnErrorWithoutEndIsOnlyItsStatus) {
  std::atomic<size_t> sent = 0;
  constexpr size_t kWhole = size_t{64} << 20;
  RawServer server([&](RawConnection& connection) {
    connection.read_request();
    connection.write("HTTP/1.1 500 X\r\nContent-Length: " + std::to_string(kWhole) + "\r\n\r\n");
    const std::string piece(1 << 16, 'x');
    while (sent < kWhole && connection.write(piece)) sent += piece.size();
  });
  const auto reply = HttpClient(server.url(), "").request("GET", "/");
  ASSERT_FALSE(reply);
  EXPECT_EQ(reply.error().problem.status, 500);
  EXPECT_LT(sent, kWhole);
}

TEST(HttpClient, AnAnswerThatLeadsElsewhereIsNoSuccess) {
  RawServer server([](RawConnection& connection) {
    connection.read_request();
    connection.write("HTTP/1.1 308 X\r\nLocation: https://there.example/v1/jobs\r\nContent-Length: 0\r\n\r\n");
  });
  const auto reply = HttpClient(server.url(), "").request("POST", "/v1/jobs", "{}");
  ASSERT_FALSE(reply);
  EXPECT_EQ(reply.error().problem.status, 308);
  EXPECT_THAT(reply.error().message(), HasSubstr("answered 308 and leads to https://there.example/v1/jobs"));
}

TEST(HttpClient, ReadsNoBodiesWhenOnlyStatusesAreWanted) {
  RawServer server([](RawConnection& connection) {
    while (true) {
      const std::string request = connection.read_request();
      if (request.empty()) return;
      if (request.find("/short") != std::string::npos) {
        connection.answer(400, R"({"title":"no"})");
      } else {
        connection.answer(200, std::string(size_t{8} << 20, 'x'));
      }
    }
  });
  HttpClient client(server.url(), "");
  client.ignore_bodies(1000);
  const auto refused = client.request("POST", "/short", "{}");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().problem.status, 400);
  EXPECT_EQ(refused.error().problem.title, "");
  const auto taken = client.request("POST", "/long", "{}");
  ASSERT_TRUE(taken) << taken.error().message();
  EXPECT_EQ(taken->status, 200);
  EXPECT_EQ(taken->body, "");
}

TEST(HttpClient, AnAnswerWithoutATokenSaysWhereTokensAre) {
  RawServer server([](RawConnection& connection) {
    connection.read_request();
    connection.answer(401, R"({"status":401,"title":"Unauthorized","detail":"no such token"})");
  });
  const auto reply = HttpClient(server.url(), "wrong").request("GET", "/v1/jobs");
  ASSERT_FALSE(reply);
  EXPECT_THAT(reply.error().message(), HasSubstr("HOLDFAST_TOKEN"));
  EXPECT_THAT(reply.error().message(), Not(HasSubstr("wrong"))) << "tokens are not printed";
}

TEST(HttpClient, WithoutAServerIsUnreachableAndSaysWhatToDo) {
  const std::string url = nowhere();
  const auto reply = HttpClient(url, "").request("GET", "/");
  ASSERT_FALSE(reply);
  EXPECT_TRUE(reply.error().unreachable);
  EXPECT_EQ(reply.error().message(),
            "cannot reach the service at " + url +
                ": Connection refused. Is `holdfast serve` running there? Set --server or HOLDFAST_SERVER.");
}

TEST(HttpClient, ASilentServerEndsByTheDeadline) {
  RawServer server([](RawConnection& connection) { connection.wait_closed(); });
  const auto reply = HttpClient(server.url(), "").request("GET", "/", {}, "", milliseconds(1500));
  ASSERT_FALSE(reply);
  EXPECT_TRUE(reply.error().unreachable);
  EXPECT_THAT(reply.error().message(), HasSubstr("no answer within 1.5 s"));
}

TEST(HttpClient, AnAnswerThatBreaksOffIsNoAnswer) {
  RawServer server([](RawConnection& connection) {
    connection.read_request();
    connection.write("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{\"half\":");
  });
  const auto reply = HttpClient(server.url(), "").request("GET", "/");
  ASSERT_FALSE(reply);
  EXPECT_TRUE(reply.error().unreachable);
}

TEST(HttpClient, EndlessHeadersAreCutOff) {
  RawServer server([](RawConnection& connection) {
    connection.read_request();
    connection.write("HTTP/1.1 200 OK\r\n");
    for (int i = 0; i < 100; ++i) connection.write("X-Many: " + std::string(1000, 'x') + "\r\n");
    connection.write("\r\n");
  });
  const auto reply = HttpClient(server.url(), "").request("GET", "/");
  ASSERT_FALSE(reply);
  EXPECT_THAT(reply.error().message(), HasSubstr("headers"));
}

TEST(HttpClient, FailuresAreNotTriedAgainByTheClientItself) {
  std::atomic<int> requests = 0;
  RawServer server([&](RawConnection& connection) {
    connection.read_request();
    ++requests;
    connection.answer(503, R"({"status":503,"detail":"busy"})");
  });
  EXPECT_FALSE(HttpClient(server.url(), "").request("GET", "/"));
  EXPECT_EQ(requests, 1);
}

TEST(HttpClient, CancelEndsARequestThatWaits) {
  std::promise<void> arrived;
  RawServer server([&](RawConnection& connection) {
    connection.read_request();
    arrived.set_value();
    connection.wait_closed();
  });
  HttpClient client(server.url(), "");
  auto waiting = std::async(std::launch::async, [&] { return client.request("GET", "/poll", {}, "", seconds(60)); });
  arrived.get_future().wait();
  client.cancel();
  ASSERT_EQ(waiting.wait_for(seconds(20)), std::future_status::ready) << "not only at its deadline of 60 s";
  const auto reply = waiting.get();
  ASSERT_FALSE(reply);
  EXPECT_TRUE(reply.error().cancelled);
  EXPECT_TRUE(reply.error().unreachable);
}

TEST(HttpClient, CancelBeforeARequestEndsItAndOnlyIt) {
  RawServer server([](RawConnection& connection) {
    while (!connection.read_request().empty()) connection.answer(200, "{}");
  });
  HttpClient client(server.url(), "");
  client.cancel();
  const auto cancelled = client.request("GET", "/");
  ASSERT_FALSE(cancelled);
  EXPECT_TRUE(cancelled.error().cancelled);
  EXPECT_TRUE(client.request("GET", "/"));
}

TEST(HttpClient, CancelsFromManyThreadsAreSafe) {
  RawServer server([](RawConnection& connection) {
    while (!connection.read_request().empty()) connection.answer(200, "{}");
  });
  HttpClient client(server.url(), "");
  std::atomic<bool> done = false;
  std::vector<std::thread> cancellers;
  for (int i = 0; i < 3; ++i) {
    cancellers.emplace_back([&] {
      while (!done) client.cancel();
    });
  }
  for (int i = 0; i < 200; ++i) (void)client.request("GET", "/");
  done = true;
  for (std::thread& thread : cancellers) thread.join();
}

TEST(HttpClient, StreamsEventsAcrossChunkBorders) {
  std::promise<std::string> seen;
  RawServer server([&](RawConnection& connection) {
    seen.set_value(connection.read_request());
    connection.write("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n");
    for (const char* piece : {"id: 8\nda", "ta: a\n\nid: 9\ndata: ", "b\n", "\n"}) {
      const std::string text = piece;
      char size[16];
      snprintf(size, sizeof size, "%zx\r\n", text.size());
      connection.write(size + text + "\r\n");
    }
    connection.write("0\r\n\r\n");
  });
  HttpClient client(server.url(), "");
  std::vector<std::string> events;
  const auto streamed = client.stream("/v1/jobs/j1/events?follow=1", "7",
                                      [&](const std::string& id, const std::string&, const std::string& data) {
                                        events.push_back(id + data);
                                        return true;
                                      });
  EXPECT_TRUE(streamed);
  EXPECT_THAT(events, ElementsAre("8a", "9b"));
  EXPECT_THAT(seen.get_future().get(), HasSubstr("Last-Event-ID: 7\r\n"));
}

TEST(HttpClient, AStreamEndsWhenTheReaderHasEnoughAndTheClientIsUsableAfter) {
  RawServer server([](RawConnection& connection) {
    if (connection.read_request().find("/events") == std::string::npos) return connection.answer(200, "{}");
    connection.write("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\nid: 1\ndata: a\n\nid: 2\ndata: b\n\n");
    connection.wait_closed();
  });
  HttpClient client(server.url(), "");
  int seen = 0;
  EXPECT_TRUE(client.stream("/events", "", [&](auto&, auto&, auto&) { return ++seen < 1; }));
  EXPECT_EQ(seen, 1);
  EXPECT_TRUE(client.request("GET", "/"));
}

TEST(HttpClient, AStreamThatIsRefusedIsAProblem) {
  RawServer server([](RawConnection& connection) {
    connection.read_request();
    connection.answer(404, R"({"status":404,"detail":"no job j9"})");
  });
  const auto streamed = HttpClient(server.url(), "").stream("/v1/jobs/j9/events", "", [](auto&, auto&, auto&) { return true; });
  ASSERT_FALSE(streamed);
  EXPECT_EQ(streamed.error().problem.detail, "no job j9");
}

TEST(HttpClient, CancelEndsAStream) {
  std::promise<void> arrived;
  RawServer server([&](RawConnection& connection) {
    connection.read_request();
    connection.write("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n");
    arrived.set_value();
    connection.wait_closed();
  });
  HttpClient client(server.url(), "");
  auto waiting =
      std::async(std::launch::async, [&] { return client.stream("/events", "", [](auto&, auto&, auto&) { return true; }); });
  arrived.get_future().wait();
  client.cancel();
  const auto streamed = waiting.get();
  ASSERT_FALSE(streamed);
  EXPECT_TRUE(streamed.error().cancelled);
}

class Environment : public ::testing::Test {
 protected:
  void SetUp() override {
    for (const char* name : {"HOLDFAST_SERVER", "HOLDFAST_TOKEN", "HOLDFAST_DATA_DIR", "XDG_DATA_HOME"}) unsetenv(name);
    setenv("HOME", "/somewhere", 1);
  }
};

TEST_F(Environment, NamesTheServerElseThisMachine) {
  EXPECT_EQ(default_server(), "http://127.0.0.1:7070");
  setenv("HOLDFAST_SERVER", "http://10.0.0.1:7070", 1);
  EXPECT_EQ(default_server(), "http://10.0.0.1:7070");
}

TEST_F(Environment, NamesTheDataDirectory) {
  EXPECT_EQ(default_data_directory(), "/somewhere/.local/share/holdfast");
  setenv("XDG_DATA_HOME", "/data", 1);
  EXPECT_EQ(default_data_directory(), "/data/holdfast");
  setenv("HOLDFAST_DATA_DIR", "/own", 1);
  EXPECT_EQ(default_data_directory(), "/own");
}

TEST_F(Environment, NamesTheTokenElseTheFileHasIt) {
  const auto folder = std::filesystem::temp_directory_path() / ("holdfast-token-" + std::to_string(getpid()));
  std::filesystem::create_directories(folder);
  setenv("HOLDFAST_DATA_DIR", folder.c_str(), 1);
  EXPECT_EQ(find_token("admin.token"), "");
  std::ofstream(folder / "admin.token") << "from-the-file\n";
  EXPECT_EQ(find_token("admin.token"), "from-the-file");
  setenv("HOLDFAST_TOKEN", "from-outside", 1);
  EXPECT_EQ(find_token("admin.token"), "from-outside");
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace holdfast::rendezvous

// Requests over real sockets: bounds, long polls, and clients that misbehave.
#include "rendezvous/http/server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <set>

#include "tests/rendezvous/http/raw_client.h"
#include "tests/rendezvous/http/server_start.h"

namespace holdfast::rendezvous {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST(HttpServer, HandsOverTheWholeRequest) {
  std::promise<HttpRequest> seen;
  const auto server = start([&](HttpRequest request, Reply reply) {
    seen.set_value(request);
    HttpResponse response = text_response("{}");
    response.status = 201;
    response.headers["Location"] = "/v1/jobs/j1";
    reply(response);
  });
  const auto reply = HttpClient(url_of(*server), "tok").request("POST", "/v1/jobs%20x?limit=5&q=a%2Bb", "{\"a\":1}");
  ASSERT_TRUE(reply) << reply.error().message();
  EXPECT_EQ(reply->status, 201);
  EXPECT_EQ(reply->location, "/v1/jobs/j1");
  const HttpRequest request = seen.get_future().get();
  EXPECT_EQ(request.method, "POST");
  EXPECT_EQ(request.path, "/v1/jobs x");
  EXPECT_EQ(request.query.at("limit"), "5");
  EXPECT_EQ(request.query.at("q"), "a+b");
  EXPECT_EQ(request.headers.at("authorization"), "Bearer tok");
  EXPECT_EQ(request.body, "{\"a\":1}");
}

TEST(HttpServer, LargeBodiesComeAndGoWhole) {
  const auto server = start([](HttpRequest request, Reply reply) { reply(text_response(std::move(request.body))); });
  std::string body(20 << 20, '\0');
  for (size_t i = 0; i < body.size(); ++i) body[i] = static_cast<char>(i * 2654435761U >> 13);
  const auto reply =
      HttpClient(url_of(*server), "").request("PUT", "/v1/jobs/j1/objects/k", body, "application/octet-stream", seconds(60));
  ASSERT_TRUE(reply) << reply.error().message();
  EXPECT_TRUE(reply->body == body);
}

TEST(HttpServer, BodiesCountAgainstTheirBoundUntilTheyAreAnswered) {
  HttpServerOptions options;
  options.max_bodies_bytes = 1000;
  options.max_objects_bytes = 0;
  Held held;
  const auto server = start([&](const HttpRequest&, Reply reply) { held.add(std::move(reply)); }, options);
  const auto put = [&] {
    return HttpClient(url_of(*server), "").request("PUT", "/v1/jobs/j1/objects/k", std::string(600, 'x'));
  };
  auto first = std::async(std::launch::async, put);
  std::vector<Reply> replies = held.wait_for(1);
  const auto second = put();
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().problem.code, "busy") << "the first body has come, and is still being worked on";
  replies[0](text_response("done"));
  EXPECT_TRUE(first.get());
  auto third = std::async(std::launch::async, put);
  held.wait_for(1)[0](text_response("done"));
  EXPECT_TRUE(third.get());
}

TEST(HttpServer, HeadIsGetWithoutTheBody) {
  const auto server = start(echo);
  RawClient client(server->port());
  client.write("HEAD /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
  const std::string answer = client.read_all();
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 200 OK\r\n"));
  EXPECT_TRUE(answer.ends_with("\r\n\r\n")) << answer;
}

TEST(HttpServer, BodiesOverTheBoundAreRefusedAndNeverReachTheHandler) {
  std::atomic<int> handled = 0;
  const auto server = start([&](const HttpRequest& request, const Reply& reply) {
    ++handled;
    echo(request, reply);
  });
  for (const size_t size : {(size_t{1} << 20) + 1, size_t{5} << 20, size_t{30} << 20}) {
    const auto reply = HttpClient(url_of(*server), "").request("POST", "/v1/jobs", std::string(size, 'x'), "", seconds(60));
    ASSERT_FALSE(reply) << size;
    const bool polite = size < size_t{5} << 20;  // the server reads it to its end, so the client surely sees the answer
    EXPECT_TRUE(reply.error().problem.status == 413 || !polite) << reply.error().message();
  }
  EXPECT_EQ(handled, 0);
  EXPECT_TRUE(HttpClient(url_of(*server), "").request("POST", "/", std::string(1 << 20, 'x')));
  EXPECT_EQ(handled, 1);
}

TEST(HttpServer, ABodyThatIsOnlyAnnouncedIsRefusedAtOnce) {
  const auto server = start(echo);
  RawClient client(server->port());
  client.write("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999\r\n\r\n");
  EXPECT_THAT(client.read_all(), StartsWith("HTTP/1.1 413 "));
}

TEST(HttpServer, ChunkedBodiesAreRefusedHoweverTheyAreCut) {
  const auto server = start(echo);
  for (const char* chunks : {"5\r\nhello\r\n0\r\n\r\n", "7fffffff\r\nhello", "-5\r\nhello\r\n", "zz\r\n"}) {
    RawClient client(server->port());
    client.write(std::string("POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n") + chunks);
    const std::string answer = client.read_all();
    EXPECT_TRUE(answer.empty() || answer.starts_with("HTTP/1.1 411 ")) << chunks << ": " << answer;
  }
  EXPECT_TRUE(HttpClient(url_of(*server), "").request("GET", "/"));
}

TEST(HttpServer, ABodyThatDoesNotArriveEndsByItsDeadline) {
  HttpServerOptions options;
  options.body_patience = milliseconds(200);
  const auto server = start(echo, options);
  RawClient client(server->port());
  client.write("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nhalf");
  EXPECT_THAT(client.read_all(), StartsWith("HTTP/1.1 408 "));
}

TEST(HttpServer, AClientThatLeavesInsideItsBodyIsForgotten) {
  std::atomic<int> handled = 0;
  const auto server = start([&](const HttpRequest& request, const Reply& reply) {
    ++handled;
    echo(request, reply);
  });
  for (int i = 0; i < 20; ++i) {
    RawClient client(server->port());
    client.write("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\nhalf");
  }
  EXPECT_TRUE(HttpClient(url_of(*server), "").request("GET", "/"));
  EXPECT_EQ(handled, 1);
}

TEST(HttpServer, AClientThatIsNotAdmittedSendsNoBody) {
  const Gate gate = [](const HttpRequest& head) -> Admission {
    if (head.headers.contains("authorization")) return {std::nullopt, true, echo};
    HttpResponse response = text_response("{\"status\":401,\"detail\":\"who are you\"}");
    response.status = 401;
    return {response, false};
  };
  const auto server = start(gate);
  RawClient stranger(server->port());
  stranger.write("PUT /v1/jobs/j1/objects/k HTTP/1.1\r\nHost: x\r\nContent-Length: 200000000\r\n\r\n");
  EXPECT_THAT(stranger.read_all(), StartsWith("HTTP/1.1 401 "));
  const auto refused = HttpClient(url_of(*server), "").request("POST", "/", "small");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().problem.status, 401);
  EXPECT_TRUE(HttpClient(url_of(*server), "tok").request("POST", "/", "small"));
}

TEST(HttpServer, LongPathsManyHeadersAndOtherMethodsAreRefused) {
  const auto server = start(echo);
  HttpClient client(url_of(*server), "");
  EXPECT_EQ(client.request("GET", "/" + std::string(9000, 'a')).error().problem.status, 414);
  EXPECT_EQ(client.request("PATCH", "/").error().problem.status, 405);
  client.set_header("X-Long", std::string(20000, 'x'));
  EXPECT_EQ(client.request("GET", "/").error().problem.status, 431);
}

TEST(HttpServer, GarbageIsAnsweredOrDroppedAndHarmsNobody) {
  const auto server = start(echo);
  for (const std::string garbage :
       {"\r\n\r\n", "GET\r\n\r\n", "GET /%zz HTTP/1.1\r\n\r\n", "\x16\x03\x01\x02", "GET / HTTP/1.1\r\nno colon\r\n\r\n",
        "POST / HTTP/1.1\r\nContent-Length: -1\r\n\r\n", "GET /\xff\xfe HTTP/1.1\r\n\r\n"}) {
    RawClient client(server->port());
    client.write(garbage);
    client.shut_down_writing();
    const std::string answer = client.read_all();
    EXPECT_TRUE(answer.empty() || answer.starts_with("HTTP/1.1 4")) << answer;
  }
  EXPECT_TRUE(HttpClient(url_of(*server), "").request("GET", "/"));
}

TEST(HttpServer, AHandlerThatThrowsAnswers500) {
  const auto server = start([](const HttpRequest&, const Reply&) { throw std::runtime_error("a bug"); });
  const auto reply = HttpClient(url_of(*server), "").request("GET", "/");
  ASSERT_FALSE(reply);
  EXPECT_EQ(reply.error().problem.status, 500);
}

TEST(HttpServer, AReplyThatIsDroppedAnswers500) {
  const auto server = start([](const HttpRequest&, const Reply&) {});
  const auto reply = HttpClient(url_of(*server), "").request("GET", "/");
  ASSERT_FALSE(reply);
  EXPECT_EQ(reply.error().problem.code, "no_answer");
}

TEST(HttpServer, OnlyTheFirstAnswerCounts) {
  const auto server = start([](const HttpRequest&, const Reply& reply) {
    reply(text_response("first"));
    reply(text_response("second"));
  });
  EXPECT_EQ(HttpClient(url_of(*server), "").request("GET", "/")->body, "first");
}

TEST(HttpServer, ManyLongPollsWaitAtOnceAndAreAnsweredLateFromAnotherThread) {
  constexpr size_t kPolls = 64;
  Held held;
  const auto server = start([&](const HttpRequest&, Reply reply) { held.add(std::move(reply)); });
  std::vector<std::future<std::string>> polls;
  for (size_t i = 0; i < kPolls; ++i) {
    polls.push_back(std::async(std::launch::async, [&] {
      const auto reply = HttpClient(url_of(*server), "").request("GET", "/poll", {}, "", seconds(60));
      return reply ? reply->body : reply.error().message();
    }));
  }
  std::vector<Reply> replies = held.wait_for(kPolls);
  for (size_t i = 0; i < replies.size(); ++i) replies[i](text_response(std::to_string(i)));
  std::set<std::string> answers;
  for (auto& poll : polls) answers.insert(poll.get());
  EXPECT_EQ(answers.size(), kPolls) << "each got an answer of its own";
}

TEST(HttpServer, AnAnswerForAClientThatHasLeftIsDropped) {
  Held held;
  const auto server = start([&](const HttpRequest& request, Reply reply) {
    if (request.path == "/poll") return held.add(std::move(reply));
    echo(request, reply);
  });
  const auto left = HttpClient(url_of(*server), "").request("GET", "/poll", {}, "", milliseconds(2000));
  EXPECT_FALSE(left);
  for (Reply& reply : held.wait_for(1)) reply(text_response(std::string(1 << 20, 'x')));
  EXPECT_TRUE(HttpClient(url_of(*server), "").request("GET", "/"));
}

TEST(HttpServer, AnswersWith300HalfOpenConnections) {
  const auto server = start(echo);
  std::vector<std::unique_ptr<RawClient>> half_open;
  for (int i = 0; i < 300; ++i) {
    half_open.push_back(std::make_unique<RawClient>(server->port()));
    half_open.back()->write(i % 2 == 0 ? "GET / HTTP/1.1\r\nHost:" : "");
  }
  for (int i = 0; i < 10; ++i) EXPECT_TRUE(HttpClient(url_of(*server), "").request("GET", "/"));
}

}  // namespace
}  // namespace holdfast::rendezvous

// The server over real sockets: bounds, long polls, streams, and an end while all of that is going on.
#include "rendezvous/http_server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <future>
#include <mutex>
#include <set>
#include <thread>

#include "rendezvous/protocol/http_client.h"
#include "tests/rendezvous/protocol/raw_client.h"

namespace holdfast::rendezvous {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::HasSubstr;
using ::testing::StartsWith;

// Requests that were not answered yet.
class Held {
 public:
  void add(Reply reply) {
    const std::lock_guard lock(mutex_);
    replies_.push_back(std::move(reply));
    changed_.notify_all();
  }
  std::vector<Reply> wait_for(size_t count) {
    std::unique_lock lock(mutex_);
    EXPECT_TRUE(changed_.wait_for(lock, seconds(30), [&] { return replies_.size() >= count; }));
    return std::exchange(replies_, {});
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Reply> replies_;
};

HttpResponse text_response(std::string body) {
  HttpResponse response;
  response.body = std::move(body);
  return response;
}

std::unique_ptr<HttpServer> start(Handler handler, HttpServerOptions options = {}) {
  options.listen = "127.0.0.1:0";
  auto server = HttpServer::start(options, std::move(handler));
  if (!server) ADD_FAILURE() << server.error();
  return server ? *std::move(server) : nullptr;
}

std::string url_of(const HttpServer& server) {
  return "http://127.0.0.1:" + std::to_string(server.port());
}

void echo(const HttpRequest& request, const Reply& reply) {
  reply(text_response(request.method + " " + request.path + " " + request.body));
}

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
  EXPECT_EQ(request.remote, "127.0.0.1");
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
    const bool polite = size < size_t{5} << 20;  // read to its end, so that the answer is surely seen
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

TEST(HttpServer, WhoIsNotAdmittedSendsNoBody) {
  HttpServerOptions options;
  options.admit = [](const HttpRequest& request) -> std::optional<HttpResponse> {
    if (request.headers.contains("authorization")) return std::nullopt;
    HttpResponse response = text_response("{\"status\":401,\"detail\":\"who are you\"}");
    response.status = 401;
    return response;
  };
  const auto server = start(echo, options);
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
  const auto left = HttpClient(url_of(*server), "").request("GET", "/poll", {}, "", milliseconds(100));
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

TEST(HttpServer, StreamsEventsUntilTheWriterCloses) {
  std::promise<std::shared_ptr<EventStream>> opened;
  const auto server = start([&](const HttpRequest&, const Reply& reply) {
    HttpResponse response;
    response.content_type = "text/event-stream";
    response.on_stream = [&](std::shared_ptr<EventStream> stream) { opened.set_value(std::move(stream)); };
    reply(response);
  });
  std::promise<void> first_seen;
  auto reader = std::async(std::launch::async, [&] {
    std::vector<std::string> events;
    HttpClient client(url_of(*server), "");
    const auto streamed = client.stream("/events", "", [&](const std::string& id, const std::string&, const std::string& data) {
      events.push_back(id + data);
      if (events.size() == 1) first_seen.set_value();
      return true;
    });
    EXPECT_TRUE(streamed);
    return events;
  });
  const auto stream = opened.get_future().get();
  EXPECT_TRUE(stream->write("id: 1\ndata: a\n\n"));
  first_seen.get_future().wait();  // it is not held back until there is more
  EXPECT_TRUE(stream->write(""));
  EXPECT_TRUE(stream->write("id: 2\ndata: b\n\n"));
  stream->close();
  EXPECT_FALSE(stream->write("after the end"));
  EXPECT_EQ(reader.get(), (std::vector<std::string>{"1a", "2b"}));
}

TEST(HttpServer, ASlowReaderOfAStreamIsCutOff) {
  HttpServerOptions options;
  options.max_stream_buffer_bytes = 64 << 10;
  std::promise<std::shared_ptr<EventStream>> opened;
  const auto server = start(
      [&](const HttpRequest&, const Reply& reply) {
        HttpResponse response;
        response.on_stream = [&](std::shared_ptr<EventStream> stream) { opened.set_value(std::move(stream)); };
        reply(response);
      },
      options);
  RawClient reader(server->port());  // which never reads
  reader.write("GET /events HTTP/1.1\r\nHost: x\r\n\r\n");
  const auto stream = opened.get_future().get();
  const std::string chunk(16 << 10, 'x');
  size_t written = 0;
  while (written < (size_t{256} << 20) && stream->write(chunk)) written += chunk.size();
  EXPECT_LT(written, size_t{256} << 20) << "what the kernel buffers, and 64 kB";
  EXPECT_FALSE(stream->write(chunk));
  // The connection ends without the reply's own end, once the reader has read what was sent.
  EXPECT_FALSE(reader.read_all().ends_with("\r\n0\r\n\r\n"));
}

TEST(HttpServer, AStreamWhoseReaderLeftSaysSo) {
  std::promise<std::shared_ptr<EventStream>> opened;
  const auto server = start([&](const HttpRequest&, const Reply& reply) {
    HttpResponse response;
    response.on_stream = [&](std::shared_ptr<EventStream> stream) { opened.set_value(std::move(stream)); };
    reply(response);
  });
  auto reader = std::make_unique<RawClient>(server->port());
  reader->write("GET /events HTTP/1.1\r\nHost: x\r\n\r\n");
  const auto stream = opened.get_future().get();
  reader.reset();
  const auto deadline = std::chrono::steady_clock::now() + seconds(30);
  while (stream->write(": still there?\n\n") && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
  EXPECT_FALSE(stream->write(": still there?\n\n"));
}

TEST(HttpServer, StopsWithLongPollsStreamsBodiesAndIdleConnectionsOpen) {
  for (int round = 0; round < 5; ++round) {
    Held held;
    std::atomic<int> streams = 0;
    std::vector<std::shared_ptr<EventStream>> open_streams;
    std::mutex mutex;
    auto server = start([&](const HttpRequest& request, Reply reply) {
      if (request.path == "/poll") return held.add(std::move(reply));
      HttpResponse response;
      response.on_stream = [&](std::shared_ptr<EventStream> stream) {
        const std::lock_guard lock(mutex);
        open_streams.push_back(std::move(stream));
        ++streams;
      };
      reply(response);
    });
    std::vector<std::unique_ptr<RawClient>> clients;
    for (int i = 0; i < 24; ++i) {
      clients.push_back(std::make_unique<RawClient>(server->port()));
      const char* texts[] = {"GET /poll HTTP/1.1\r\nHost: x\r\n\r\n", "GET /events HTTP/1.1\r\nHost: x\r\n\r\n",
                             "POST /poll HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nhalf", ""};
      clients.back()->write(texts[i % 4]);
    }
    std::vector<Reply> late = held.wait_for(6);
    while (streams < 6) std::this_thread::yield();
    const auto port = server->port();
    const auto begin = std::chrono::steady_clock::now();
    server.reset();
    EXPECT_LT(std::chrono::steady_clock::now() - begin, seconds(4)) << "it did not have to give up waiting";
    for (auto& client : clients) client->read_all();  // each was cut
    for (Reply& reply : late) reply(text_response("too late"));
    for (auto& stream : open_streams) EXPECT_FALSE(stream->write("too late"));
    EXPECT_TRUE(HttpClient("http://127.0.0.1:" + std::to_string(port), "").request("GET", "/").error().unreachable);
  }
}

TEST(HttpServer, AnswersThatCrossItsEndAreHarmless) {
  for (int round = 0; round < 10; ++round) {
    Held held;
    auto server = start([&](const HttpRequest&, Reply reply) { held.add(std::move(reply)); });
    std::vector<std::unique_ptr<RawClient>> clients;
    for (int i = 0; i < 8; ++i) {
      clients.push_back(std::make_unique<RawClient>(server->port()));
      clients.back()->write("GET /poll HTTP/1.1\r\nHost: x\r\n\r\n");
    }
    std::vector<Reply> replies = held.wait_for(8);
    std::thread answering([&] {
      for (Reply& reply : replies) reply(text_response("x"));
      replies.clear();
    });
    server.reset();
    answering.join();
  }
}

TEST(HttpServer, ServersComeAndGoOnTheSamePort) {
  int port = 0;
  for (int round = 0; round < 5; ++round) {
    HttpServerOptions options;
    options.listen = "127.0.0.1:" + std::to_string(port);
    auto server = HttpServer::start(options, echo);
    ASSERT_TRUE(server) << server.error();
    port = (*server)->port();
    EXPECT_TRUE(HttpClient(url_of(**server), "").request("GET", "/"));
  }
}

TEST(HttpServer, TwoServersLiveApart) {
  auto one = start([](const HttpRequest&, const Reply& reply) { reply(text_response("one")); });
  auto two = start([](const HttpRequest&, const Reply& reply) { reply(text_response("two")); });
  const std::string url_one = url_of(*one);
  EXPECT_EQ(HttpClient(url_one, "").request("GET", "/")->body, "one");
  EXPECT_EQ(HttpClient(url_of(*two), "").request("GET", "/")->body, "two");
  one.reset();
  EXPECT_FALSE(HttpClient(url_one, "").request("GET", "/"));
  EXPECT_EQ(HttpClient(url_of(*two), "").request("GET", "/")->body, "two");
}

TEST(HttpServer, APortInUseIsNamedWithTheRemedy) {
  const auto first = start(echo);
  HttpServerOptions options;
  options.listen = "127.0.0.1:" + std::to_string(first->port());
  const auto second = HttpServer::start(options, echo);
  ASSERT_FALSE(second);
  EXPECT_THAT(second.error(), HasSubstr("port " + std::to_string(first->port())));
  EXPECT_THAT(second.error(), HasSubstr("--listen"));
  EXPECT_TRUE(HttpClient(url_of(*first), "").request("GET", "/")) << "the first is unharmed";
}

TEST(HttpServer, AnAddressThatIsNoneIsNamed) {
  for (const char* listen : {"7070", "127.0.0.1:", "no.such.host.invalid:1", "203.0.113.7:0", "127.0.0.1:http"}) {
    HttpServerOptions options;
    options.listen = listen;
    const auto server = HttpServer::start(options, echo);
    ASSERT_FALSE(server) << listen;
    EXPECT_THAT(server.error(), HasSubstr(listen));
  }
}

}  // namespace
}  // namespace holdfast::rendezvous

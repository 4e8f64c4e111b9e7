// Streams, and the server's start and end while requests are under way.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <thread>

#include "tests/rendezvous/http/raw_client.h"
#include "tests/rendezvous/http/server_start.h"

namespace holdfast::rendezvous {
namespace {

using std::chrono::seconds;
using ::testing::HasSubstr;

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
  first_seen.get_future().wait();  // the first event is not held back until there are more
  EXPECT_TRUE(stream->write(""));
  EXPECT_TRUE(stream->write("id: 2\ndata: b\n\n"));
  stream->close();
  EXPECT_FALSE(stream->write("after the end"));
  EXPECT_EQ(reader.get(), (std::vector<std::string>{"1a", "2b"}));
}

TEST(HttpServer, AStreamOfKnownLengthIsSentAsItIsAndIsShorterWhenItIsAbandoned) {
  std::promise<std::shared_ptr<EventStream>> opened[2];
  std::atomic<int> asked = 0;
  const auto server = start([&](const HttpRequest&, const Reply& reply) {
    HttpResponse response;
    response.stream_bytes = 6;
    response.on_stream = [&](std::shared_ptr<EventStream> stream) { opened[asked++].set_value(std::move(stream)); };
    reply(response);
  });
  const auto begin = [&](RawClient& client, int which) {
    client.write("GET /file HTTP/1.1\r\nHost: x\r\n\r\n");
    auto stream = opened[which].get_future().get();
    EXPECT_TRUE(stream->write("abc"));
    EXPECT_TRUE(stream->await_reader(0));
    return stream;
  };
  RawClient whole(server->port()), part(server->port());
  const auto first = begin(whole, 0);
  first->write("def");
  first->close();
  const std::string all = whole.read_all();
  EXPECT_THAT(all, HasSubstr("Content-Length: 6\r\n"));
  EXPECT_TRUE(all.ends_with("\r\n\r\nabcdef")) << all;
  begin(part, 1)->abandon();
  EXPECT_TRUE(part.read_all().ends_with("\r\n\r\nabc"));
  RawClient head(server->port());
  head.write("HEAD /file HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
  EXPECT_THAT(head.read_all(), HasSubstr("Content-Length: 6\r\n"));
}

TEST(HttpServer, ASlowReaderOfAStreamIsCutOff) {
  HttpServerOptions options;
  options.max_stream_buffer_bytes = 64 << 10;
  std::promise<std::shared_ptr<EventStream>> opened;
  const auto server = start(stream_to(opened), options);
  RawClient reader(server->port());  // never reads
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
  const auto server = start(stream_to(opened));
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
    server.reset();
    for (auto& client : clients) client->read_all();  // each connection was cut
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
  EXPECT_THAT(second.error(), HasSubstr("ss -ltnp"));
  EXPECT_THAT(second.error(), HasSubstr("--listen"));
  EXPECT_TRUE(HttpClient(url_of(*first), "").request("GET", "/")) << "the first is unharmed";
}

TEST(HttpServer, AnInvalidAddressIsNamed) {
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

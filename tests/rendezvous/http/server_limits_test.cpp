// Bounds on the cost of one connection or many: endless headers, requests that never end, too many connections, readers that do
// not read.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <thread>

#include "tests/rendezvous/http/raw_client.h"
#include "tests/rendezvous/http/server_start.h"

namespace holdfast::rendezvous {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using std::chrono::steady_clock;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr const char* kGet = "GET /a HTTP/1.1\r\nHost: x\r\n\r\n";

void wait_for_connections(const HttpServer& server, int64_t wanted) {
  const auto deadline = steady_clock::now() + seconds(20);
  while (server.counts().connections != wanted && steady_clock::now() < deadline) std::this_thread::yield();
  EXPECT_EQ(server.counts().connections, wanted);
}

TEST(HttpServerLimits, EndlessHeadersAreRefusedAfterSomeKilobytes) {
  const auto server = start(echo);
  RawClient client(server->port());
  client.write("GET / HTTP/1.1\r\nHost: x\r\n");
  const std::string line = "X-A: " + std::string(1000, 'a') + "\r\n";
  for (int i = 0; i < 64; ++i) client.write(line);
  EXPECT_THAT(client.read_all(), StartsWith("HTTP/1.1 431 "));
  RawClient endless_line(server->port());
  endless_line.write("GET /" + std::string(64 << 10, 'a'));
  EXPECT_THAT(endless_line.read_all(), StartsWith("HTTP/1.1 431 "));
  EXPECT_TRUE(HttpClient(url_of(*server), "").request("GET", "/"));
}

TEST(HttpServerLimits, EndlessHeadersAreRefusedInWhateverPiecesTheyCome) {
  const auto server = start(echo);
  RawClient client(server->port());
  client.write("GET / HTTP/1.1\r\nHost: x\r\nX");
  // Each piece ends one byte into the next header, so that the server can take all whole headers at once.
  for (int i = 0; i < 200; ++i) {
    client.write("-A: " + std::string(1000, 'a') + "\r\nX");
    std::this_thread::sleep_for(milliseconds(1));
  }
  EXPECT_THAT(client.read_all(), StartsWith("HTTP/1.1 431 "));
}

TEST(HttpServerLimits, HeadersWithTheSameNameAreCounted) {
  const auto server = start(echo);
  RawClient client(server->port());
  std::string text = "GET / HTTP/1.1\r\nHost: x\r\n";
  for (int i = 0; i < 100; ++i) text += "X-A: a\r\n";
  client.write(text + "\r\n");
  EXPECT_THAT(client.read_all(), StartsWith("HTTP/1.1 431 "));
}

TEST(HttpServerLimits, ARequestWithoutUseForABodyMayNotAnnounceOne) {
  const auto server = start(echo);
  RawClient client(server->port());
  client.write("GET /healthz HTTP/1.1\r\nHost: x\r\nContent-Length: 1048576\r\n\r\n");
  EXPECT_THAT(client.read_all(), StartsWith("HTTP/1.1 413 "));
}

TEST(HttpServerLimits, SlowUploadsOfObjectsKeepNobodyElseOut) {
  HttpServerOptions options;
  options.max_body_bytes = 1000;
  options.max_objects_bytes = 4000;
  const auto server = start(echo, options);
  RawClient object(server->port());
  object.write(
      "PUT /v1/jobs/j1/objects/k HTTP/1.1\r\nHost: x\r\nConnection: close\r\nExpect: 100-continue\r\nContent-Length: "
      "3000\r\n\r\n");
  ASSERT_EQ(object.read_some(), "HTTP/1.1 100 Continue\r\n\r\n");  // its bytes are counted from here on
  HttpClient client(url_of(*server), "");
  const auto put_another = [&] { return client.request("PUT", "/v1/jobs/j1/objects/k", std::string(2000, 'x')); };
  const auto refused = put_another();
  ASSERT_FALSE(refused) << "the first one's bytes are not counted";
  EXPECT_EQ(refused.error().problem.code, "busy");
  EXPECT_TRUE(client.request("POST", "/beat", std::string(900, 'x')));
  object.write(std::string(3000, 'x'));
  EXPECT_THAT(object.read_all(), StartsWith("HTTP/1.1 200 "));
  EXPECT_TRUE(put_another());
}

TEST(HttpServerLimits, ARequestThatNeverEndsIsAnsweredAndClosed) {
  HttpServerOptions options;
  options.head_patience = milliseconds(2000);
  const auto server = start(echo, options);
  RawClient half(server->port());
  half.write("GET / HTTP/1.1\r\nHost:");
  RawClient silent(server->port());
  EXPECT_THAT(half.read_all(), StartsWith("HTTP/1.1 408 "));
  EXPECT_EQ(silent.read_all(), "");
  wait_for_connections(*server, 0);
}

TEST(HttpServerLimits, TricklingBytesDoNotProlongIt) {
  HttpServerOptions options;
  options.head_patience = milliseconds(2000);
  const auto server = start(echo, options);
  RawClient client(server->port());
  client.write("G");
  std::atomic<bool> done = false;
  std::thread trickle([&] {
    for (const char c : std::string("ET / HTTP/1.1\r\nHost: ") + std::string(4000, 'x')) {
      if (done) return;
      client.write(std::string(1, c));
      std::this_thread::sleep_for(milliseconds(10));
    }
  });
  EXPECT_THAT(client.read_all(), StartsWith("HTTP/1.1 408 "));
  done = true;
  trickle.join();
}

TEST(HttpServerLimits, AnIdleConnectionIsClosed) {
  HttpServerOptions options;
  options.idle_patience = milliseconds(150);
  const auto server = start(echo, options);
  RawClient client(server->port());
  client.write(kGet);
  EXPECT_THAT(client.read_all(), StartsWith("HTTP/1.1 200 "));
  wait_for_connections(*server, 0);
}

TEST(HttpServerLimits, MoreConnectionsThanAllowedAreTurnedAwayAndTheOthersGoOn) {
  HttpServerOptions options;
  options.max_connections = 10;
  const auto server = start(echo, options);
  std::vector<std::unique_ptr<RawClient>> open;
  for (int i = 0; i < 10; ++i) open.push_back(std::make_unique<RawClient>(server->port()));
  wait_for_connections(*server, 10);
  RawClient late(server->port());
  EXPECT_THAT(late.read_all(), StartsWith("HTTP/1.1 503 "));
  EXPECT_EQ(server->counts().refused_connections, 1);
  open[0]->write("GET /a HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
  EXPECT_THAT(open[0]->read_all(), HasSubstr("GET /a"));
  wait_for_connections(*server, 9);
  EXPECT_TRUE(HttpClient(url_of(*server), "").request("GET", "/"));
}

TEST(HttpServerLimits, StrangersOfOneAddressDoNotTakeAllConnections) {
  HttpServerOptions options;
  options.max_strangers = 5;
  const Gate gate = [](const HttpRequest& head) -> Admission {
    return {std::nullopt, head.headers.contains("authorization"), echo};
  };
  const auto server = start(gate, options);
  std::vector<std::unique_ptr<HttpClient>> known;
  for (int i = 0; i < 8; ++i) {
    known.push_back(std::make_unique<HttpClient>(url_of(*server), "token"));
    EXPECT_TRUE(known.back()->request("GET", "/"));  // the connection stays open
  }
  std::vector<std::unique_ptr<RawClient>> strangers;
  for (int i = 0; i < 5; ++i) strangers.push_back(std::make_unique<RawClient>(server->port()));
  wait_for_connections(*server, 13);
  RawClient late(server->port());
  EXPECT_THAT(late.read_all(), StartsWith("HTTP/1.1 503 "));
  EXPECT_TRUE(known[0]->request("GET", "/"));
  strangers.pop_back();
  wait_for_connections(*server, 12);
  EXPECT_TRUE(HttpClient(url_of(*server), "token").request("GET", "/"));
}

TEST(HttpServerLimits, LargeAnswersThatNobodyReadsAreBounded) {
  HttpServerOptions options;
  options.max_body_bytes = 1000;
  options.max_answers_bytes = size_t{40} << 20;
  const auto server =
      start([](const HttpRequest& request,
               const Reply& reply) { reply(text_response(std::string(request.path == "/small" ? 10 : 32 << 20, 'x'))); },
            options);
  RawClient slow(server->port());
  slow.write("GET /large HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
  const std::string begun = slow.read_some();
  EXPECT_THAT(begun, StartsWith("HTTP/1.1 200 "));
  HttpClient client(url_of(*server), "");
  const auto refused = client.request("GET", "/large");
  ASSERT_FALSE(refused) << "the slow reader's is under way";
  EXPECT_EQ(refused.error().problem.code, "busy");
  EXPECT_TRUE(client.request("GET", "/small"));
  EXPECT_GT(begun.size() + slow.read_all().size(), size_t{32} << 20);
  EXPECT_TRUE(client.request("GET", "/large"));
}

TEST(HttpServerLimits, RequestsOfOneConnectionAreAnsweredInOrder) {
  const auto server = start(echo);
  RawClient client(server->port());
  client.write(
      "GET /1 HTTP/1.1\r\nHost: x\r\n\r\nPOST /2 HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\nbodyGET /3 HTTP/1.1\r\nHost: "
      "x\r\nConnection: close\r\n\r\n");
  const std::string all = client.read_all();
  const size_t one = all.find("GET /1"), two = all.find("POST /2 body"), three = all.find("GET /3");
  EXPECT_TRUE(one < two && two < three && three != std::string::npos) << all;
}

TEST(HttpServerLimits, AClientThatAsksWhetherToSendItsBodyIsAnswered) {
  const auto server = start(echo);
  RawClient client(server->port());
  client.write("POST / HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nConnection: close\r\nContent-Length: 4\r\n\r\n");
  EXPECT_EQ(client.read_some(), "HTTP/1.1 100 Continue\r\n\r\n");
  client.write("body");
  const std::string all = client.read_all();
  EXPECT_THAT(all, StartsWith("HTTP/1.1 200 "));
  RawClient too_much(server->port());
  too_much.write("POST / HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 9999999999\r\n\r\n");
  EXPECT_THAT(too_much.read_all(), StartsWith("HTTP/1.1 413 "));
}

TEST(HttpServerLimits, OldClientsGetAnAnswerThatTheyUnderstand) {
  const auto server = start(echo);
  RawClient client(server->port());
  client.write("GET /old HTTP/1.0\r\n\r\n");
  const std::string all = client.read_all();
  EXPECT_THAT(all, HasSubstr("Connection: close\r\n"));
  EXPECT_TRUE(all.ends_with("GET /old ")) << all;
}

TEST(HttpServerLimits, AWriterThatWaitsForUnreadBytesLosesNoReader) {
  HttpServerOptions options;
  options.max_stream_buffer_bytes = 64 << 10;
  std::promise<std::shared_ptr<EventStream>> opened;
  const auto server = start(stream_to(opened), options);
  RawClient reader(server->port());
  reader.write("GET /events HTTP/1.1\r\nHost: x\r\n\r\n");
  const auto stream = opened.get_future().get();
  constexpr size_t kPieces = 2000, kPiece = 32 << 10;
  std::thread writer([&] {
    for (size_t i = 0; i < kPieces; ++i) {
      while (stream->unread() > 0) std::this_thread::yield();
      ASSERT_TRUE(stream->write(std::string(kPiece, 'x')));
    }
    stream->close();
  });
  while (stream->unread() == 0) std::this_thread::yield();  // the reader begins late
  const std::string all = reader.read_all();
  writer.join();
  EXPECT_EQ(static_cast<size_t>(std::ranges::count(all, 'x')), kPieces * kPiece);
  EXPECT_TRUE(all.ends_with("0\r\n\r\n"));
}

TEST(HttpServerLimits, AChunkAboveTheBoundIsTakenWhereNothingIsUnread) {
  HttpServerOptions options;
  options.max_stream_buffer_bytes = 64 << 10;
  std::promise<std::shared_ptr<EventStream>> opened;
  const auto server = start(stream_to(opened), options);
  RawClient reader(server->port());
  reader.write("GET /events HTTP/1.1\r\nHost: x\r\n\r\n");
  const auto stream = opened.get_future().get();
  constexpr size_t kChunk = 8 << 20;
  EXPECT_TRUE(stream->write(std::string(kChunk, 'x')));
  stream->close();
  const std::string all = reader.read_all();
  EXPECT_EQ(static_cast<size_t>(std::ranges::count(all, 'x')), kChunk);
  EXPECT_TRUE(all.ends_with("0\r\n\r\n"));
}

TEST(HttpServerLimits, AResponseMayHaveABoundOfItsOwn) {
  std::promise<std::shared_ptr<EventStream>> opened;
  const auto server = start([&](const HttpRequest&, const Reply& reply) {
    HttpResponse response{.stream_unread_max = 4 << 20};
    response.on_stream = [&](std::shared_ptr<EventStream> stream) { opened.set_value(std::move(stream)); };
    reply(std::move(response));
  });
  RawClient reader(server->port());
  reader.write("GET /events HTTP/1.1\r\nHost: x\r\n\r\n");
  const auto stream = opened.get_future().get();
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(stream->write(std::string(1 << 20, 'x'))) << i;
}

TEST(HttpServerLimits, AWriterSleepsUntilItsReaderHasReadOrLeft) {
  std::promise<std::shared_ptr<EventStream>> opened;
  const auto server = start(stream_to(opened));
  auto reader = std::make_unique<RawClient>(server->port());
  reader->write("GET /file HTTP/1.1\r\nHost: x\r\n\r\n");
  const auto stream = opened.get_future().get();
  std::atomic<int> written = 0;
  std::thread writer([&] {
    const std::string piece(64 << 10, 'x');
    while (stream->await_reader(piece.size()) && stream->write(piece)) ++written;
  });
  while (written < 200) (void)reader->read_some();  // 12 MB are more than the kernel takes by itself
  reader.reset();
  writer.join();
  EXPECT_FALSE(stream->await_reader(0)) << "nobody is there";
}

TEST(HttpServerLimits, AReaderThatLeavesIsNoticedWithoutAWrite) {
  std::promise<std::shared_ptr<EventStream>> opened;
  const auto server = start(stream_to(opened));
  auto reader = std::make_unique<RawClient>(server->port());
  reader->write("GET /events HTTP/1.1\r\nHost: x\r\n\r\n");
  const auto stream = opened.get_future().get();
  EXPECT_EQ(server->counts().streams, 1);
  reader.reset();
  wait_for_connections(*server, 0);
  EXPECT_EQ(server->counts().streams, 0);
  EXPECT_FALSE(stream->write("nobody reads this"));
}

}  // namespace
}  // namespace holdfast::rendezvous

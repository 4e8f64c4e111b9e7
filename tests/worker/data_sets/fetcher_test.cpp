// Workers that fetch one data set at the same time, in this process, from a service that the test plays.
#include "worker/data_sets/fetcher.h"

#include <gtest/gtest.h>

#include <map>

#include "tests/model/temporary_folder.h"
#include "tests/worker/data_sets/made_set.h"
#include "tests/worker/link/fake_service.h"
#include "worker/data_sets/cache.h"
#include "worker/peer_server/own_certificate.h"

namespace holdfast::worker {
namespace {

using rendezvous::HttpRequest;
using rendezvous::HttpResponse;
using Waited = Fetcher::Waited;

// Gives each chunk to one worker, as the real one does.
class SetService {
 public:
  explicit SetService(const MadeSet& made) : made_(made) {
    service.answer_with([this](const HttpRequest& request) { return answer(request); });
  }

  FakeService service;
  std::atomic<bool> gives{true};        // chunks, to workers that ask for some
  std::atomic<int> damaged{0}, got{0};  // so many more chunks are sent with a wrong byte; so many were sent
  std::atomic<bool> is_absent{false};
  std::atomic<bool> wrong_pins{false};
  std::atomic<int> words{0};  // of all workers

 private:
  std::optional<HttpResponse> answer(const HttpRequest& request) {
    if (request.path.ends_with("/holders")) return is_absent ? FakeService::problem(404, "not_found") : holders(request);
    for (int64_t chunk = 0; chunk < made_.manifest.chunks(); ++chunk) {
      if (request.path == "/v1/data/chunks/" + *rendezvous::chunk_at(made_.manifest, chunk).name) return bytes_of(chunk);
    }
    return std::nullopt;
  }
  HttpResponse bytes_of(int64_t chunk) {
    HttpResponse response;
    response.body = made_.chunk(chunk);
    if (damaged > 0 && damaged-- > 0) response.body[7] ^= 1;
    ++got;
    return response;
  }
  HttpResponse holders(const HttpRequest& request) {
    const auto asked = rendezvous::holders_request_from_json(nlohmann::json::parse(request.body));
    rendezvous::HoldersReply reply;
    reply.key = "secret";
    ++words;
    const std::lock_guard lock(mutex_);
    asked_[asked.worker] = asked;
    for (const auto& [worker, other] : asked_) {
      if (worker != asked.worker)
        reply.holders.push_back({worker, other.address, other.have, wrong_pins ? make_own_certificate().pin : other.pin});
    }
    const auto have = *rendezvous::chunks_of_bits(asked.have, made_.manifest.chunks());
    for (int64_t chunk = 0; gives && chunk < made_.manifest.chunks(); ++chunk) {
      const bool is_mine = given_[chunk].empty() || given_[chunk] == asked.worker;
      if (!is_mine || have[static_cast<size_t>(chunk)] || static_cast<int64_t>(reply.take.size()) >= asked.room) continue;
      given_[chunk] = asked.worker;
      reply.take.push_back(chunk);
    }
    return {200, to_json(reply).dump(), "application/json", {}, nullptr};
  }

  const MadeSet& made_;
  std::mutex mutex_;
  std::map<std::string, rendezvous::HoldersRequest> asked_;
  std::map<int64_t, std::string> given_;
};

// A worker with a cache of its own.
struct Peer {
  Peer(const std::string& name, SetService& service, const MadeSet& made)
      : link({service.service.url(), "token", name, name + "-1", std::chrono::milliseconds(5), std::chrono::milliseconds(40)},
             [](ExitCode, const std::string&) {}),
        server(std::move(*ChunkServer::start("127.0.0.1", {}))),
        set(*DataCache(folder.path(), 0).open(made.manifest)) {}

  Fetcher& fetch() {
    fetcher.emplace(link, "wiki", set, server.get(), [this](const std::string& kind, const std::string& message) {
      const std::lock_guard lock(mutex);
      events.emplace_back(kind, message);
    });
    return *fetcher;
  }
  bool has_event(const std::string& kind) {
    const std::lock_guard lock(mutex);
    return std::ranges::find(events, kind, &std::pair<std::string, std::string>::first) != events.end();
  }

  model::TemporaryFolder folder;
  ServiceLink link;
  std::unique_ptr<ChunkServer> server;
  std::shared_ptr<CachedSet> set;
  std::mutex mutex;
  std::vector<std::pair<std::string, std::string>> events;
  std::optional<Fetcher> fetcher;
};

class Fetching : public ::testing::Test {
 protected:
  const MadeSet made = made_set(6 * kTokensOfChunk - 100);
  SetService service{made};
};

TEST_F(Fetching, WorkersGetAllAndTheServiceSendsEachChunkOnce) {
  Peer one("w1", service, made), two("w2", service, made), three("w3", service, made);
  for (Peer* peer : {&one, &two, &three}) peer->fetch();
  for (Peer* peer : {&one, &two, &three}) {
    EXPECT_EQ(peer->fetcher->wait_for(0, 6, nullptr), Waited::kHere);
    for (int64_t chunk = 0; chunk < 6; ++chunk) EXPECT_EQ(peer->set->get(chunk), made.chunk(chunk));
  }
  EXPECT_EQ(service.got, 6);
}

TEST_F(Fetching, AnothersChunksAreEnoughWhileTheServiceIsAway) {
  Peer one("w1", service, made), two("w2", service, made);
  one.fetch();
  ASSERT_EQ(one.fetcher->wait_for(0, 6, nullptr), Waited::kHere);
  service.gives = false;
  two.fetch();
  ASSERT_EQ(two.fetcher->wait_for(0, 1, nullptr), Waited::kHere) << "so it knows of w1";
  service.service.go_away();
  EXPECT_EQ(two.fetcher->wait_for(0, 6, nullptr), Waited::kHere);
}

TEST_F(Fetching, ItGoesOnWhenTheServiceComesBack) {
  Peer one("w1", service, made);
  service.service.go_away();
  one.fetch();
  service.service.come_back();
  EXPECT_EQ(one.fetcher->wait_for(0, 6, nullptr), Waited::kHere);
}

TEST_F(Fetching, DamageOnTheWayIsFoundSaidAndFetchedAgain) {
  service.damaged = 2;
  Peer one("w1", service, made);
  one.fetch();
  EXPECT_EQ(one.fetcher->wait_for(0, 6, nullptr), Waited::kHere);
  for (int64_t chunk = 0; chunk < 6; ++chunk) EXPECT_EQ(one.set->get(chunk), made.chunk(chunk));
  EXPECT_TRUE(one.has_event("data_damaged"));
}

TEST_F(Fetching, AWaitEndsWhenItIsStopped) {
  service.gives = false;
  Peer one("w1", service, made);
  one.fetch();
  const std::atomic<bool> stop{true};
  EXPECT_EQ(one.fetcher->wait_for(0, 1, &stop), Waited::kStopped);
}

TEST_F(Fetching, ASetThatNobodyHasAnyMoreIsAFailure) {
  service.is_absent = true;
  Peer one("w1", service, made);
  one.fetch();
  EXPECT_EQ(one.fetcher->wait_for(0, 1, nullptr), Waited::kFailed);
  EXPECT_EQ(one.fetcher->failure(), "data set wiki is not at the service any more, and no other worker has it: push it again");
}

TEST_F(Fetching, IdsAboveWhatTheSetSaysAreAFailure) {
  MadeSet lying = made;
  lying.manifest.files[0].largest_id = 900;
  Peer one("w1", service, lying);
  one.fetch();
  EXPECT_EQ(one.fetcher->wait_for(0, 6, nullptr), Waited::kFailed);
  EXPECT_NE(one.fetcher->failure().find("and the data set says that its largest is 900: push it again"), std::string::npos)
      << one.fetcher->failure();
}

TEST_F(Fetching, TokensOtherThanTheSetSaysAreAFailure) {
  MadeSet lying = made;
  lying.manifest.files[0].tokens_digest = "12-another";
  Peer one("w1", service, lying);
  one.fetch();
  while (one.fetcher->failure().empty()) one.fetcher->wait_for(0, 6, nullptr);
  EXPECT_EQ(one.fetcher->wait_for(0, 1, nullptr), Waited::kFailed) << "though its chunks are here";
  EXPECT_NE(one.fetcher->failure().find("the data set says 12-another: push it again"), std::string::npos)
      << one.fetcher->failure();
  EXPECT_FALSE(one.fetcher->is_complete());
}

TEST_F(Fetching, ChunksAreGivenToThoseWithTheKeyOnly) {
  Peer one("w1", service, made);
  one.fetch();
  ASSERT_EQ(one.fetcher->wait_for(0, 6, nullptr), Waited::kHere);
  rendezvous::HttpClient stranger("https://" + one.server->address(), "");
  stranger.trust_only(one.server->pin());
  const std::string path = "/v1/data/sets/" + made.manifest.digest() + "/chunks/";
  const auto status = [&](const std::string& what) {
    const auto reply = stranger.request("GET", what);
    return reply ? reply->status : reply.error().problem.status;
  };
  EXPECT_EQ(status(path + "0"), 403);
  stranger.set_header(kDataKeyHeader, "secret");
  EXPECT_EQ(status(path + "0"), 200);
  EXPECT_EQ(status(path + "6"), 404);
  EXPECT_EQ(status(path + "-1"), 404);
  EXPECT_EQ(status(path + "../../etc"), 404);
  EXPECT_EQ(status("/v1/data/sets/" + std::string(64, 'a') + "/have"), 404);
  EXPECT_EQ(status("/"), 404);
}

TEST_F(Fetching, ChunksAreAskedOfNobodyWhoseKeyIsNotTheOneThatTheServiceTells) {
  Peer one("w1", service, made), two("w2", service, made);
  one.fetch();
  ASSERT_EQ(one.fetcher->wait_for(0, 6, nullptr), Waited::kHere);
  service.gives = false;
  service.wrong_pins = true;
  two.fetch();
  // Each answer has it ask w1 at once, and w1 has all.
  for (const int before = service.words; service.words < before + 6; std::this_thread::yield())
    ASSERT_EQ(two.set->missing(), 6);
  service.wrong_pins = false;
  EXPECT_EQ(two.fetcher->wait_for(0, 6, nullptr), Waited::kHere);
}

TEST_F(Fetching, ChunksAreNotGivenInPlainBytes) {
  Peer one("w1", service, made);
  one.fetch();
  ASSERT_EQ(one.fetcher->wait_for(0, 6, nullptr), Waited::kHere);
  rendezvous::HttpClient plain("http://" + one.server->address(), "");
  plain.set_header(kDataKeyHeader, "secret");
  const auto reply = plain.request("GET", "/v1/data/sets/" + made.manifest.digest() + "/chunks/0");
  ASSERT_FALSE(reply);
  EXPECT_EQ(reply.error().problem.status, 400) << "it is told that here is TLS";
}

TEST_F(Fetching, OfTwoProcessesOnOneCacheOneFetches) {
  Peer one("w1", service, made), two("w2", service, made);
  two.set = *DataCache(one.folder.path(), 0).open(made.manifest);
  one.fetch();
  two.fetch();
  EXPECT_EQ(two.fetcher->wait_for(0, 6, nullptr), Waited::kHere);
  EXPECT_EQ(one.fetcher->wait_for(0, 6, nullptr), Waited::kHere);
  EXPECT_EQ(service.got, 6);
}

}  // namespace
}  // namespace holdfast::worker

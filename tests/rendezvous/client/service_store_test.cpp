// The service store over real sockets: checkpoints through HTTP, faults that pass and faults that do not.
#include "rendezvous/client/service_store.h"

#include <atomic>
#include <chrono>
#include <filesystem>

#include "storage/checksum.h"
#include "tests/rendezvous/client/raw_server.h"
#include "tests/storage/checks.h"
#include "tests/storage/temporary_folder.h"
#include "tests/storage/tiny_http_server.h"

namespace holdfast::storage::testing {
namespace {

using rendezvous::open_service_store;
using rendezvous::service_stores;
using rendezvous::WorkerIdentity;

using std::chrono::milliseconds;

class ServiceStoreTest : public ::testing::Test {
 protected:
  std::unique_ptr<ObjectStore> open(milliseconds deadline = std::chrono::seconds(60)) {
    return open_service_store(server_.url(), "j1", "secret", {deadline, milliseconds(1)});
  }
  TinyHttpServer server_;
  std::unique_ptr<ObjectStore> store_ = open();
  const Bytes some_ = Bytes(1000, std::byte{7});
};

TEST_F(ServiceStoreTest, CheckpointsAreWrittenAndReadOverSeveralConnections) {
  const State state(1);
  ASSERT_TRUE(ok(write_checkpoint(*store_, manifest_at(60), state.tensors(), {.shard_bytes = 3000, .threads = 3})));
  EXPECT_TRUE(holds(*store_, 60, state));
  EXPECT_TRUE(ok(verify_checkpoint(*store_, 60, 3)));
  ASSERT_TRUE(ok(write_checkpoint(*store_, manifest_at(70), state.tensors())));
  EXPECT_EQ(list_checkpoints(*store_).value(), (std::vector<int64_t>{60, 70}));
  ASSERT_TRUE(ok(remove_checkpoint(*store_, 60)));
  EXPECT_EQ(list_checkpoints(*store_).value(), std::vector<int64_t>{70});
  EXPECT_TRUE(ok(remove_orphans(*store_, {})));
}

TEST_F(ServiceStoreTest, SendsItsTokenAndTheChecksumOfItsBody) {
  ASSERT_TRUE(ok(store_->put("a/b", some_)));
  const auto asked = server_.asked();
  ASSERT_EQ(asked.size(), 1U);
  EXPECT_EQ(asked[0].method, "PUT");
  EXPECT_EQ(asked[0].target, "/v1/jobs/j1/objects/a/b");
  EXPECT_EQ(asked[0].token, "Bearer secret");
  EXPECT_EQ(asked[0].content_type, "application/octet-stream");
  EXPECT_EQ(asked[0].checksum, checksum_hex(some_));
  EXPECT_EQ(store_->describe(), server_.url() + " (job j1)");
}

TEST_F(ServiceStoreTest, SendsTheIncarnationOfTheWorkerThatWritesAndRemoves) {
  const auto opened =
      open_store("", "j1", {.service = service_stores(server_.url(), "secret", WorkerIdentity{"w1", "life-7"})});
  ASSERT_TRUE(ok(opened));
  ASSERT_TRUE(ok((*opened)->put("a", some_)));
  ASSERT_TRUE(ok((*opened)->remove("a")));
  ASSERT_TRUE(ok(store_->put("b", some_)));
  const auto asked = server_.asked();
  ASSERT_EQ(asked.size(), 3U);
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(asked[i].worker, "w1");
    EXPECT_EQ(asked[i].incarnation, "life-7");
  }
  EXPECT_EQ(asked[2].worker + asked[2].incarnation, "") << "opened by nobody in particular";
}

TEST_F(ServiceStoreTest, TriesAgainAfterFailuresThatMayPass) {
  for (const int status : {500, 502, 503, 429, 408, TinyHttpServer::kHangUp}) {
    SCOPED_TRACE(status);
    server_.answer_next_with({status, status});
    ASSERT_TRUE(ok(store_->put("a", some_)));
    server_.answer_next_with({status});
    EXPECT_EQ(store_->get("a").value(), some_);
    server_.answer_next_with({status});
    EXPECT_EQ(store_->list("a").value(), std::vector<std::string>{"a"});
    server_.answer_next_with({status});
    EXPECT_TRUE(ok(store_->remove("a")));
  }
}

TEST_F(ServiceStoreTest, SendsAnObjectAgainThatWasAlteredOnTheWay) {
  server_.name_problems("altered_on_the_way");
  server_.answer_next_with({400, 400});
  ASSERT_TRUE(ok(store_->put("a", some_)));
  EXPECT_EQ(store_->get("a").value(), some_);
}

TEST_F(ServiceStoreTest, GivesUpAtItsDeadlineAndNamesTheAddress) {
  store_ = open(milliseconds(30));
  server_.answer_next_with(std::vector<int>(10000, 503));
  const auto put = store_->put("a", some_);
  ASSERT_FALSE(put);
  EXPECT_EQ(put.error().code, Error::Code::kUnavailable);
  EXPECT_TRUE(put.error().message.starts_with("cannot write a (1000 bytes) in " + server_.url() + " (job j1): "))
      << put.error().message;
}

TEST(ServiceStore, IsUnavailableWhileTheServiceIsAway) {
  std::string url;
  {
    const TinyHttpServer gone;
    url = gone.url();
  }
  const auto store = open_service_store(url, "j1", "secret", {milliseconds(30), milliseconds(1)});
  const auto get = store->get("a");
  ASSERT_FALSE(get);
  EXPECT_EQ(get.error().code, Error::Code::kUnavailable);
  EXPECT_NE(get.error().message.find(url), std::string::npos) << get.error().message;
}

TEST_F(ServiceStoreTest, DoesNotTryAgainAfterFailuresThatWillNotPass) {
  const std::pair<int, Error::Code> cases[] = {
      {400, Error::Code::kRefused}, {401, Error::Code::kRefused}, {403, Error::Code::kRefused}, {404, Error::Code::kRefused},
      {409, Error::Code::kRefused}, {413, Error::Code::kRefused}, {507, Error::Code::kNoSpace}};
  for (const auto& [status, code] : cases) {
    SCOPED_TRACE(status);
    const size_t before = server_.asked().size();
    server_.answer_next_with({status});
    const auto put = store_->put("a", some_);
    ASSERT_FALSE(put);
    EXPECT_EQ(put.error().code, code);
    EXPECT_EQ(server_.asked().size(), before + 1);
    EXPECT_NE(put.error().message.find("the test wants it"), std::string::npos) << put.error().message;
  }
}

TEST_F(ServiceStoreTest, AnObjectThatTheServicesDiskCannotReadIsCorruptAtOnce) {
  server_.name_problems("corrupt");
  server_.answer_next_with({422});
  const auto read = store_->get("a");
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().code, Error::Code::kCorrupt);
  EXPECT_EQ(server_.asked().size(), 1U);
  server_.name_problems("invalid");
  server_.answer_next_with({422});
  EXPECT_EQ(store_->get("a").error().code, Error::Code::kRefused);
}

TEST_F(ServiceStoreTest, AMissingObjectIsNotFoundAndCountsAsRemoved) {
  EXPECT_EQ(store_->get("a").error().code, Error::Code::kNotFound);
  server_.answer_next_with({404});
  EXPECT_TRUE(ok(store_->remove("a")));
  EXPECT_EQ(read_manifest(*store_, 5).error().code, Error::Code::kNotFound);
}

TEST_F(ServiceStoreTest, RefusesKeysBeforeAsking) {
  for (const char* key : {"", "../j2/objects/a", "a?b", "a#b", "a%2fb"}) {
    EXPECT_EQ(store_->put(key, {}).error().code, Error::Code::kRefused);
    EXPECT_EQ(store_->get(key).error().code, Error::Code::kRefused);
    EXPECT_EQ(store_->remove(key).error().code, Error::Code::kRefused);
  }
  EXPECT_TRUE(store_->list("a&b=c")->empty());
  EXPECT_TRUE(server_.asked().empty());
}

TEST_F(ServiceStoreTest, RefusesAnAnswerThatIsNotAList) {
  for (const char* body : {"<html>", "[]", "{}", R"({"keys": 3})", R"({"keys": [3]})", R"({"keys": ["../a"]})"}) {
    server_.answer_lists_with(body);
    const auto list = store_->list("");
    ASSERT_FALSE(list) << body;
    EXPECT_EQ(list.error().code, Error::Code::kUnavailable);
  }
}

TEST_F(ServiceStoreTest, AlteredBytesAreNamedWithTheService) {
  const auto written = write_checkpoint(*store_, manifest_at(60), State(1).tensors());
  ASSERT_TRUE(ok(written));
  const std::string target = "/v1/jobs/j1/objects/" + written->shards[0].key;
  std::string bytes = server_.objects().at(target);
  bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 1);
  server_.alter(target, bytes);
  const auto verified = verify_checkpoint(*store_, 60);
  ASSERT_FALSE(verified);
  EXPECT_EQ(verified.error().code, Error::Code::kCorrupt);
  EXPECT_NE(verified.error().message.find(written->shards[0].key + " in " + server_.url()), std::string::npos)
      << verified.error().message;
}

TEST(OpenStore, TellsFoldersAndTheServiceApart) {
  const TemporaryFolder folder;
  EXPECT_EQ((*open_store(folder.path(), "j1"))->describe(), folder.path() + "/j1");
  EXPECT_EQ((*open_store("file://" + folder.path(), "j1"))->describe(), folder.path() + "/j1");
  EXPECT_EQ((*open_store(folder.path() + "/j1", ""))->describe(), folder.path() + "/j1");
  EXPECT_EQ((*open_store("", "j1", {.service = service_stores("http://10.0.0.1:7070", "t")}))->describe(),
            "http://10.0.0.1:7070 (job j1)");
}

TEST(OpenStore, RefusesUnknownFormsAndNamesTheKnownOnes) {
  for (const char* url : {"gs://bucket/x", "ckpt", "./ckpt", "file://host/x", "http://x/y"}) {
    const auto opened = open_store(url, "j1");
    ASSERT_FALSE(opened) << url;
    EXPECT_EQ(opened.error().code, Error::Code::kRefused);
    EXPECT_NE(opened.error().message.find(std::string("\"") + url + "\" is not supported: give an absolute folder"),
              std::string::npos)
        << opened.error().message;
  }
  EXPECT_FALSE(open_store("", "", {.service = service_stores("http://10.0.0.1:7070", "t")}));
  EXPECT_FALSE(open_store("/x", "../j1"));
  EXPECT_FALSE(open_store("/x", "a/b"));
}

TEST(OpenStore, StaysBelowItsRoots) {
  namespace fs = std::filesystem;
  const TemporaryFolder allowed, other;
  const OpenOptions options{.roots = {other.path() + "/none", allowed.path()}};
  fs::create_directory_symlink(other.path(), allowed.path() + "/link");
  EXPECT_TRUE(open_store(allowed.path(), "j1", options));
  EXPECT_TRUE(open_store("file://" + allowed.path() + "/deeper/still", "j1", options));
  for (const std::string& outside : {other.path(), allowed.path() + "/../" + fs::path(other.path()).filename().string(),
                                     allowed.path() + "/link", allowed.path() + "x", std::string("/")}) {
    const auto opened = open_store(outside, "j1", options);
    ASSERT_FALSE(opened) << outside;
    EXPECT_EQ(opened.error().code, Error::Code::kRefused);
    EXPECT_NE(opened.error().message.find("--checkpoint_root"), std::string::npos) << opened.error().message;
  }
  fs::create_directory_symlink(other.path(), allowed.path() + "/j9");
  fs::create_directory_symlink(allowed.path() + "/deeper", allowed.path() + "/j8");
  const auto linked = open_store(allowed.path(), "j9", options);
  ASSERT_FALSE(linked) << "the job's own folder is a link";
  EXPECT_EQ(linked.error().code, Error::Code::kRefused);
  EXPECT_TRUE(open_store(allowed.path(), "j8", options)) << "a link that stays within";
  EXPECT_TRUE(fs::is_empty(other.path())) << "nothing was made there";
}

// The service took the request and never answers.
TEST(ServiceStore, ReadsThatAreToldToStopEndWithoutAnAnswer) {
  std::atomic<bool> stop = false;
  rendezvous::RawServer server([&stop](rendezvous::RawConnection& connection) {
    connection.read_request();
    stop = true;
    connection.wait_closed();
  });
  const auto store = open_service_store(server.url(), "j1", "secret", {.stop = &stop});
  EXPECT_EQ(store->get("a").error().code, Error::Code::kUnavailable);
  EXPECT_EQ(store->list("").error().code, Error::Code::kUnavailable) << "none begins";
}

}  // namespace
}  // namespace holdfast::storage::testing

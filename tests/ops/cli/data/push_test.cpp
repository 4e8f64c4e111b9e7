// `holdfast data push` against a service that keeps data sets in memory.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "tests/ops/cli/cli_runner.h"
#include "tests/ops/cli/data/fake_data_service.h"

namespace holdfast::ops {
namespace {

namespace fs = std::filesystem;
using rendezvous::HttpRequest;
using rendezvous::HttpResponse;
using rendezvous::kChunkBytes;
using testing::AllOf;
using testing::HasSubstr;
using testing::SizeIs;

class DataPush : public testing::Test {
 protected:
  DataPush()
      : folder_(testing::TempDir() + "holdfast-push-" + std::to_string(getpid()) + "-" +
                testing::UnitTest::GetInstance()->current_test_info()->name() + "/wiki") {
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  ~DataPush() override { fs::remove_all(fs::path(folder_).parent_path()); }

  Said push(std::vector<std::string> more = {}) {
    std::vector<std::string> arguments = {"data", "push", folder_, "--server", service_.url()};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return holdfast(std::move(arguments));
  }
  void write(const std::string& name, const std::string& bytes) const {
    std::ofstream(folder_ + "/" + name, std::ios::binary) << bytes;
  }
  // Token ids from 0 to largest and again, as nanoGPT writes them.
  static std::string tokens(size_t count, uint16_t largest = 255) {
    std::string bytes;
    for (size_t i = 0; i < count; ++i) {
      const auto id = static_cast<uint16_t>(i % (largest + 1));
      bytes += static_cast<char>(id & 0xff);
      bytes += static_cast<char>(id >> 8);
    }
    return bytes;
  }
  // Bytes of so many chunks and a little more, all of them different.
  static std::string large(int chunks) {
    std::string bytes(static_cast<size_t>(kChunkBytes) * static_cast<size_t>(chunks) + 10, 'x');
    for (int i = 0; i <= chunks; ++i)
      bytes[static_cast<size_t>(i) * static_cast<size_t>(kChunkBytes)] = static_cast<char>('a' + i);
    return bytes;
  }

  const std::string folder_;
  int seen_ = 0;  // requests, as the test counts them; the service calls under its lock
  bool lost_ = false;
  FakeDataService service_;
};

TEST_F(DataPush, AFolderBecomesADataSetOfItsName) {
  write("train.bin", tokens(5000));
  write("val.bin", tokens(600, 300));
  write("info.json", R"({"vocab_size": 512})");
  const Said said = push();
  ASSERT_EQ(said.exit_code, 0) << said.err;
  EXPECT_THAT(said.out,
              AllOf(HasSubstr("Pushed wiki: 3 files"), HasSubstr("5,600 tokens"),
                    HasSubstr("holdfast submit --train_data_path data:wiki --valid_data_path data:wiki --vocab_size 512")));
  const auto set = service_.set("wiki");
  ASSERT_TRUE(set.has_value());
  ASSERT_THAT(set->files, SizeIs(3));
  EXPECT_EQ(set->find("train.bin")->tokens, 5000);
  EXPECT_EQ(set->find("val.bin")->largest_id, 300);
  EXPECT_THAT(set->find("train.bin")->tokens_digest, testing::StartsWith("5000-"));
  EXPECT_EQ(set->find("info.json")->tokens_digest, "");
  EXPECT_EQ(service_.file("wiki", "train.bin"), tokens(5000));
}

TEST_F(DataPush, ALargeFileGoesInChunksAndAnotherNameMayBeGiven) {
  write("text.txt", large(10));
  const Said said = push({"--name", "books"});
  ASSERT_EQ(said.exit_code, 0) << said.err;
  EXPECT_THAT(said.out, HasSubstr("Pushed books: 1 file"));
  EXPECT_THAT(service_.chunks(), SizeIs(11));
  EXPECT_EQ(service_.file("books", "text.txt"), large(10));
}

TEST_F(DataPush, ASecondPushSendsNothing) {
  write("train.bin", tokens(5000));
  ASSERT_EQ(push().exit_code, 0);
  const Said said = push({"--json"});
  ASSERT_EQ(said.exit_code, 0) << said.err;
  const auto json = nlohmann::json::parse(said.out);
  EXPECT_EQ(json["sent_bytes"], 0);
  EXPECT_EQ(json["there_bytes"], 10000);
  EXPECT_EQ(service_.puts(), 1);
  EXPECT_THAT(push().out, HasSubstr("10.0 kB of it were there already"));
}

TEST_F(DataPush, AnInterruptedPushGoesOnWithWhatIsMissing) {
  write("text.txt", large(20));
  service_.instead([this](const HttpRequest& request) -> std::optional<HttpResponse> {
    if (request.method != "PUT" || ++seen_ <= 10) return std::nullopt;
    return FakeDataService::problem(507, "no_space", "data sets may have 40 MB here: holdfast data rm");
  });
  const Said refused = push();
  EXPECT_EQ(refused.exit_code, 3);
  EXPECT_THAT(refused.err, AllOf(HasSubstr("data sets may have 40 MB here"), HasSubstr("goes on where this one ended")));
  const int sent = service_.puts();
  EXPECT_GE(sent, 1);
  EXPECT_FALSE(service_.set("wiki").has_value());
  service_.instead(nullptr);
  ASSERT_EQ(push().exit_code, 0);
  EXPECT_EQ(service_.puts(), 21);
  EXPECT_EQ(service_.file("wiki", "text.txt"), large(20));
}

TEST_F(DataPush, RequestsThatFailForNowAreTriedAgain) {
  write("text.txt", large(3));
  service_.instead([this](const HttpRequest& request) -> std::optional<HttpResponse> {
    if (request.method == "GET" || ++seen_ % 2 == 0) return std::nullopt;
    return FakeDataService::problem(seen_ % 3 == 0 ? 400 : 503, seen_ % 3 == 0 ? "altered_on_the_way" : "unavailable", "again");
  });
  const Said said = push();
  ASSERT_EQ(said.exit_code, 0) << said.err;
  EXPECT_EQ(service_.file("wiki", "text.txt"), large(3));
}

TEST_F(DataPush, AChunkThatTheServiceLosesBeforeTheManifestIsSentAgain) {
  write("train.bin", tokens(5000));
  const std::string bytes = tokens(5000);
  service_.instead([&](const HttpRequest& request) -> std::optional<HttpResponse> {
    if (!request.path.starts_with("/v1/data/sets/") || seen_++ > 0) return std::nullopt;
    lost_ = true;
    return FakeDataService::problem(409, "chunks_missing", "1 chunk is not here");
  });
  ASSERT_EQ(push().exit_code, 0);
  EXPECT_TRUE(lost_);
  EXPECT_EQ(service_.file("wiki", "train.bin"), bytes);
}

TEST_F(DataPush, AFileThatChangesMeanwhileEndsIt) {
  write("text.txt", large(3));
  service_.instead([this](const HttpRequest& request) -> std::optional<HttpResponse> {
    if (request.path == "/v1/data/missing" && seen_++ == 0) std::ofstream(folder_ + "/text.txt", std::ios::app) << "more";
    return std::nullopt;
  });
  write("a.txt", large(8));  // before text.txt: its chunks are asked about while text.txt is still to be read
  const Said said = push();
  EXPECT_EQ(said.exit_code, 2);
  EXPECT_THAT(said.err, AllOf(HasSubstr("text.txt"), HasSubstr("changed while it was pushed")));
  EXPECT_FALSE(service_.set("wiki").has_value());
}

TEST_F(DataPush, WhatIsNotTakenIsNamed) {
  write("train.bin", tokens(500));
  write(".hidden", "x");
  fs::create_directories(folder_ + "/raw");
  const Said said = push();
  EXPECT_EQ(said.exit_code, 0);
  EXPECT_THAT(said.err, AllOf(HasSubstr("skipped: raw is a folder"), HasSubstr("skipped: .hidden has a name")));
  EXPECT_THAT(service_.set("wiki")->files, SizeIs(1));
}

TEST_F(DataPush, ABinFileThatIsNoTokenFileIsPushedAndNamed) {
  write("train.bin", "odd");
  const Said said = push();
  EXPECT_EQ(said.exit_code, 0);
  EXPECT_THAT(said.err, AllOf(HasSubstr("train.bin"), HasSubstr("it is pushed as it is")));
  EXPECT_EQ(service_.set("wiki")->find("train.bin")->tokens_digest, "");
}

TEST_F(DataPush, OfFilesWithoutTokensItSaysThatNoJobCanTrainOnThem) {
  write("notes.txt", "text");
  const Said said = push();
  EXPECT_EQ(said.exit_code, 0) << said.err;
  EXPECT_THAT(said.out, HasSubstr("None of its files has tokens (*.bin), so no job can train on it"));
  write("more.bin", tokens(100));
  EXPECT_THAT(push().out, HasSubstr("Next: holdfast submit --train_data_path data:wiki/more.bin"));
}

TEST_F(DataPush, OneFileIsADataSetToo) {
  write("train.bin", tokens(500));
  const Said said = holdfast({"data", "push", folder_ + "/train.bin", "--name", "one", "--server", service_.url()});
  EXPECT_EQ(said.exit_code, 0) << said.err;
  EXPECT_THAT(said.out, HasSubstr("--train_data_path data:one\n"));
}

TEST_F(DataPush, NothingToPushAndNamesThatCannotBeAreRefusedBeforeAnythingIsSent) {
  EXPECT_THAT(push().err, HasSubstr("there is no file to push"));
  write("train.bin", tokens(500));
  const Said odd = push({"--name", "my data"});
  EXPECT_EQ(odd.exit_code, 2);
  EXPECT_THAT(odd.err, HasSubstr("give one with --name"));
  EXPECT_EQ(holdfast({"data", "push", folder_ + "/nothing", "--server", service_.url()}).exit_code, 2);
  EXPECT_EQ(service_.puts(), 0);
}

TEST_F(DataPush, WithoutAServiceItEndsAtOnce) {
  write("train.bin", tokens(500));
  EXPECT_EQ(holdfast({"data", "push", folder_, "--server", "http://127.0.0.1:1"}).exit_code, 3);
}

}  // namespace
}  // namespace holdfast::ops

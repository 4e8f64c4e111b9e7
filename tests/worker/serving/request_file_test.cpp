// Files of requests: their answers hang on nothing but the requests, a run that was ended goes on, and what is wrong is named.
#include "worker/serving/request_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "tests/worker/serving/small_served.h"

namespace holdfast::worker {
namespace {

using ::testing::HasSubstr;
using Json = nlohmann::json;

std::string read(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}
void write(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}
std::string lines_of(const std::string& text, size_t first, size_t count) {
  std::istringstream lines(text);
  std::string line, some;
  for (size_t i = 0; std::getline(lines, line); ++i) {
    if (i >= first && i < first + count) some += line + "\n";
  }
  return some;
}

struct Interrupted {};

class RequestFileTest : public ::testing::Test {
 protected:
  RequestFileTest() {
    std::filesystem::create_directories(folder_);
    std::string requests;
    for (int i = 0; i < 20; ++i) {
      Json request = {{"prompt", std::string(static_cast<size_t>(1 + i % 7), static_cast<char>('a' + i))}};
      if (i % 3 == 0) request["id"] = "r" + std::to_string(i);
      if (i % 4 == 0) request["n"] = 3;
      if (i % 5 == 0) request["logprobs"] = 2;
      if (i == 8) requests += "\n";
      requests += request.dump() + "\n";
    }
    write(requests_, requests);
  }
  ~RequestFileTest() override { std::filesystem::remove_all(folder_); }

  RequestFile file(int64_t at_once = 8) const {
    return {.requests = requests_,
            .answers = answers_,
            .model = "m",
            .fingerprint = "f",
            .step = 60,
            .defaults = {{"max_tokens", 12}, {"temperature", 0.9}},
            .texts_at_once = at_once};
  }
  auto answer(const RequestFile& file) { return write_answers(file, *model_.decoder, *model_.tokenizer, kServed.block_size); }
  // The answers of a run that nobody disturbed.
  std::string undisturbed() {
    const auto done = answer(file());
    EXPECT_TRUE(done) << (done ? "" : done.error());
    std::string all = read(answers_);
    std::filesystem::remove(answers_);
    return all;
  }
  // Ends in the middle, as by kill -9, once `answers` are there.
  void interrupted(int64_t answers) {
    RequestFile some = file();
    some.on_progress = [answers](const RequestFileProgress& progress) {
      if (progress.answered >= answers) throw Interrupted();
    };
    EXPECT_THROW(static_cast<void>(answer(some)), Interrupted);
    EXPECT_FALSE(std::filesystem::exists(answers_));
  }
  std::string refusal(const RequestFile& file) {
    const auto done = answer(file);
    EXPECT_FALSE(done);
    EXPECT_FALSE(std::filesystem::exists(answers_));
    return done ? "" : done.error();
  }

  const std::string folder_ = ::testing::TempDir() + "request_file_test";
  const std::string requests_ = folder_ + "/requests.jsonl", answers_ = folder_ + "/answers.jsonl", part_ = answers_ + ".part";
  SmallServed model_;
};

TEST_F(RequestFileTest, AnswersAreInTheOrderOfTheRequestsAndHangOnNothingElse) {
  const std::string all = undisturbed();
  std::istringstream lines(all);
  int64_t last = 0, count = 0;
  for (std::string line; std::getline(lines, line); ++count) {
    const Json answer = Json::parse(line);
    EXPECT_GT(answer.at("line").get<int64_t>(), last);
    last = answer.at("line");
    EXPECT_EQ(answer.at("seed").get<int64_t>(), last);
    EXPECT_EQ(answer.at("choices").size(), count % 4 == 0 ? 3U : 1U);
    EXPECT_EQ(answer.contains("id"), count % 3 == 0) << line;
    EXPECT_FALSE(answer.contains("created"));
  }
  EXPECT_EQ(count, 20);
  EXPECT_EQ(last, 21) << "an empty line is none, and is counted";
  for (const int64_t at_once : {1, 3, 200}) {
    ASSERT_TRUE(answer(file(at_once)));
    EXPECT_EQ(read(answers_), all);
    std::filesystem::remove(answers_);
  }
  EXPECT_FALSE(std::filesystem::exists(part_));
}

TEST_F(RequestFileTest, ARunThatWasEndedGoesOnAndItsFileIsTheSame) {
  const std::string all = undisturbed();
  for (const int64_t at : {1, 7, 19}) {
    interrupted(at);
    const auto done = answer(file());
    ASSERT_TRUE(done) << done.error();
    EXPECT_GE(done->gone_on_from, at);
    EXPECT_EQ(read(answers_), all);
    std::filesystem::remove(answers_);
  }
}

TEST_F(RequestFileTest, WhatIsTornIsDoneAgain) {
  const std::string all = undisturbed();
  interrupted(9);
  const std::string part = read(part_);
  const size_t lines = static_cast<size_t>(std::ranges::count(part, '\n'));
  for (const std::string& torn :
       {part.substr(0, part.size() - 1), part.substr(0, part.size() - 40),
        lines_of(part, 0, 3) + std::string(50, '\0') + "\n" + lines_of(part, 4, lines), std::string()}) {
    write(part_, torn);
    const auto done = answer(file());
    ASSERT_TRUE(done) << done.error();
    EXPECT_EQ(read(answers_), all);
    std::filesystem::remove(answers_);
  }
}

TEST_F(RequestFileTest, NothingIsWrittenBeforeEveryLineWasFoundRight) {
  const std::string right = read(requests_);
  for (const auto& [line, words] : std::vector<std::pair<std::string, std::string>>{
           {"{", "requests.jsonl:22: the line is no JSON, expected a JSON object; one is, as an example, {\"prompt\": "},
           {"[]", "requests.jsonl:22: the line is array, expected a JSON object"},
           {R"({"id":)" + std::string(300'000, '['), "requests.jsonl:22: the line is nested deeper than 64 levels"},
           {R"({"prompt":"a","temprature":1})", "requests.jsonl:22: temprature: no such field; did you mean temperature?"},
           {R"({"prompt":"a","stream":true})", "requests.jsonl:22: stream: a file has none"},
           {R"({"prompt":"a","model":"other"})", "requests.jsonl:22: model: \"other\", expected m or nothing"},
           {R"({"prompt":"a","id":[1]})", "requests.jsonl:22: id: [1], expected a text or a whole number"},
           {R"({"prompt":[999]})", "requests.jsonl:22: prompt"},
           {Json{{"prompt", std::string(97, 'x')}}.dump(), "requests.jsonl:22: prompt: "},
           {Json{{"prompt", std::string(90'000, 'x')}}.dump(), "requests.jsonl:22: prompt: 90000 bytes are more"}}) {
    write(requests_, right + line + "\n");
    EXPECT_THAT(refusal(file()), HasSubstr(words));
    EXPECT_FALSE(std::filesystem::exists(part_));
  }
}

TEST_F(RequestFileTest, NullStandsForWhatIsNotThere) {
  write(requests_, "\n{\"prompt\":\"a\"}\n");
  const Json without = Json::parse(undisturbed());
  write(requests_, "\n{\"prompt\":\"a\",\"seed\":null,\"max_tokens\":null,\"model\":null,\"id\":null}\n");
  const Json with = Json::parse(undisturbed());
  EXPECT_EQ(with.at("seed"), 2);
  EXPECT_EQ(with, without);
}

TEST_F(RequestFileTest, AnswersOfOthersAreNotTakenUp) {
  interrupted(5);
  RequestFile other = file();
  other.fingerprint = "g";
  EXPECT_THAT(refusal(other), HasSubstr("has answers of another model (f, expected g)"));
  other.step = 80;
  EXPECT_THAT(refusal(other),
              HasSubstr("has answers of step 60, and this is the checkpoint of step 80: go on with `--from PLACE@60`"));
  other = file();
  other.defaults["max_tokens"] = 13;
  EXPECT_THAT(refusal(other), HasSubstr("another request than the one that was answered"));
  const std::string right = read(requests_);
  write(requests_, lines_of(right, 0, 1));
  EXPECT_THAT(refusal(file()), HasSubstr("answers to requests that are not in"));
  write(requests_, right);
  ASSERT_TRUE(answer(file())) << "and it goes on";
  const auto again = answer(file());
  ASSERT_FALSE(again);
  EXPECT_THAT(again.error(), HasSubstr("is there already"));
}

TEST_F(RequestFileTest, TwoAtOnceDoNotWriteToOneFile) {
  RequestFile one = file();
  std::string said;
  one.on_progress = [&](const RequestFileProgress&) {
    if (said.empty()) said = refusal(file());
  };
  ASSERT_TRUE(answer(one));
  EXPECT_THAT(said, HasSubstr("another process writes answers to it"));
}

TEST_F(RequestFileTest, AFileThatIsNotThereIsNamed) {
  std::filesystem::remove(requests_);
  EXPECT_THAT(refusal(file()), HasSubstr("requests.jsonl: it cannot be read"));
}

}  // namespace
}  // namespace holdfast::worker

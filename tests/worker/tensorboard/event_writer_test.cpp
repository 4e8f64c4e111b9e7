// Event files: their bytes beside known ones, their names' order, and the failure to write them. A reader of them is tested end
// to end (tests/e2e/test_tensorboard.py).
#include "worker/tensorboard/event_writer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>

#include "worker/tensorboard/event_file.h"

namespace holdfast::worker {
namespace {

using testing::HasSubstr;

TEST(TensorBoardFile, HasTheChecksumOfItsFormat) {
  EXPECT_EQ(crc32c("123456789"), 0xE3069283U) << "the check value of CRC-32C";
  EXPECT_EQ(crc32c(""), 0U);
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8A9136AAU) << "RFC 3720, B.4";
  EXPECT_EQ(crc32c(std::string(32, '\xFF')), 0x62A8AB43U);
}

TEST(TensorBoardFile, AnEventHasTheFieldsOfEventProto) {
  using std::string_literals::operator""s;
  EXPECT_EQ(version_event(0), "\x09\0\0\0\0\0\0\0\0\x1A\x0D"s + "brain.Event:2");
  EXPECT_EQ(session_start_event(1, 300), "\x09\0\0\0\0\0\0\xF0\x3F\x10\xAC\x02\x3A\x02\x08\x01"s);
  const Scalar loss{"loss", 1.0};
  EXPECT_EQ(scalars_event(1, 2, {&loss, 1}), "\x09\0\0\0\0\0\0\xF0\x3F\x10\x02\x2A\x0D\x0A\x0B\x0A\x04loss\x15\0\0\x80\x3F"s);
}

class TensorBoardTest : public testing::Test {
 protected:
  TensorBoardTest() {
    std::string name = (std::filesystem::temp_directory_path() / "tensorboard-XXXXXX").string();
    root_ = mkdtemp(name.data());
  }
  ~TensorBoardTest() override { std::filesystem::remove_all(root_); }

  static rendezvous::StepPoint point(int64_t step) {
    rendezvous::StepPoint point;
    point.step = step;
    return point;
  }
  // One generation after the other, each of one step.
  void write(const std::string& job, int generations) {
    TensorBoard board(root_.string(),
                      [this](const std::string& of, const std::string& what) { failures_.push_back(of + ": " + what); });
    for (int64_t step = 0; step < generations; ++step) {
      board.begin(job, step, 2);
      board.add(point(step + 1));
    }
  }
  std::set<std::string> files(const std::string& job) const {
    std::set<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(root_ / job)) names.insert(entry.path().filename().string());
    return names;
  }

  std::filesystem::path root_;
  std::vector<std::string> failures_;
};

TEST_F(TensorBoardTest, EachGenerationHasAFileThatIsReadAfterThoseBefore) {
  write("j1", 3);
  const auto before = files("j1");
  ASSERT_EQ(before.size(), 3u);
  // One from a machine whose clock is ahead.
  std::ofstream(root_ / "j1" / "events.out.tfevents.9000000000.elsewhere.1") << "";
  write("j1", 1);
  EXPECT_THAT(*files("j1").rbegin(), HasSubstr("events.out.tfevents.9000000001."));
  EXPECT_EQ(files("j1").size(), 5u);
  EXPECT_TRUE(failures_.empty());
}

TEST_F(TensorBoardTest, AGenerationWithoutAStepHasNoFile) {
  TensorBoard(root_.string(), [](const std::string&, const std::string&) {}).begin("j1", 0, 1);
  EXPECT_FALSE(std::filesystem::exists(root_ / "j1"));
}

TEST_F(TensorBoardTest, AJobsNameLeadsNowhereElse) {
  for (const char* name : {"../j1", "a/b", "..", ".hidden", "/etc"}) write(name, 1);
  EXPECT_EQ(failures_.size(), 5u);
  EXPECT_TRUE(std::filesystem::is_empty(root_));
}

TEST_F(TensorBoardTest, WhatCannotBeWrittenIsToldOnceInAGeneration) {
  std::ofstream(root_ / "j1") << "a file where the folder should be";
  {
    TensorBoard board(root_.string(), [this](const std::string&, const std::string& what) { failures_.push_back(what); });
    board.begin("j1", 0, 1);
    for (int64_t step = 1; step <= 5; ++step) board.add(point(step));
    board.begin("j1", 5, 1);
    board.add(point(6));
  }
  ASSERT_EQ(failures_.size(), 2u);
  EXPECT_THAT(failures_[0], HasSubstr("Training goes on"));
}

}  // namespace
}  // namespace holdfast::worker

// Data prepared again over what an earlier run left: one that succeeded, that failed, that was killed, or that is still at
// work.
#include <sys/wait.h>
#include <unistd.h>

#include "model/data/new_file.h"
#include "model/data/tokenizer.h"
#include "tests/model/prepared_data.h"

namespace holdfast::model {
namespace {

// A run that is killed in the middle: the process is a child that stops dead when it tells that it has written something.
void prepare_until_killed(PrepareOptions chosen) {
  const pid_t child = ::fork();
  if (child == 0) {
    chosen.on_progress = [&](const PrepareProgress& progress) {
      if (progress.pass == 2) ::_exit(9);
    };
    const auto report = prepare(chosen);
    ::_exit(report ? 0 : 1);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  ASSERT_EQ(WEXITSTATUS(status), 9);
}

TEST_F(PrepareTest, RemovesFilesOfAnEarlierRunThatItDoesNotWriteAgain) {
  write_texts();
  ASSERT_TRUE(prepare(options("data", "bpe")));
  PrepareOptions chosen = options("data", "bytes");
  chosen.validation_fraction = 0;
  ASSERT_TRUE(prepare(chosen));
  EXPECT_FALSE(std::filesystem::exists(out_.path("data/val.bin")));
  EXPECT_FALSE(std::filesystem::exists(out_.path("data/tokenizer.model")));
  EXPECT_STREQ((*Tokenizer::load(out_.path("data")))->kind(), "bytes");
}

// The files of the second run cannot be written, one after the other, because a folder has the file's temporary name.
TEST_F(PrepareTest, AFailedRunLeavesTheEarlierDataSetWhole) {
  write_texts();
  ASSERT_TRUE(prepare(options("data", "bpe")));
  text_.write("c.txt", english_text() + "and more of it\n");
  for (const char* name : {"train.bin", "val.bin", "tokenizer.model", "info.json"}) {
    SCOPED_TRACE(name);
    std::filesystem::create_directories(out_.path("data/" + std::string(name) + ".tmp/in the way"));
    const auto before = contents(out_.path("data"));
    EXPECT_THAT(refusal_of(options("data", "bpe")), HasSubstr("data/" + std::string(name) + ": cannot be written"));
    EXPECT_EQ(contents(out_.path("data")), before);
    std::filesystem::remove_all(out_.path("data/" + std::string(name) + ".tmp"));
  }
  ASSERT_TRUE(prepare(options("data", "bpe")));
  ASSERT_TRUE(prepare(options("fresh", "bpe")));
  EXPECT_EQ(contents(out_.path("data")), contents(out_.path("fresh"))) << "it succeeds once nothing is in the way";
}

TEST_F(PrepareTest, NamesAFileOfAnEarlierRunThatItCannotRemove) {
  write_texts();
  ASSERT_TRUE(prepare(options("data", "bytes")));
  std::filesystem::create_directories(out_.path("data/tokenizer.model/in the way"));
  EXPECT_THAT(refusal_of(options("data", "bytes")), HasSubstr("data/tokenizer.model: cannot be removed"));
  EXPECT_FALSE(std::filesystem::exists(out_.path("data/info.json"))) << "nothing says that what is there belongs together";
}

TEST_F(PrepareTest, ARunThatWasKilledGoesOnAndWritesTheSameFiles) {
  write_texts();
  for (const char* tokenizer : {"bytes", "bpe"}) {
    const std::string name = tokenizer;
    ASSERT_TRUE(prepare(options("whole-" + name, tokenizer)));
    PrepareOptions chosen = options("killed-" + name, tokenizer);
    chosen.journal_every = std::chrono::milliseconds(0);
    chosen.batch_bytes = 1;
    prepare_until_killed(chosen);
    EXPECT_TRUE(std::filesystem::exists(out_.path("killed-" + name + "/unfinished.cbor")));
    const auto report = prepare(chosen);
    ASSERT_TRUE(report) << report.error();
    EXPECT_GT(report->gone_on_from, 0);
    EXPECT_EQ(contents(out_.path("killed-" + name)), contents(out_.path("whole-" + name)));
  }
}

TEST_F(PrepareTest, ARunThatWasKilledBeginsAnewWhereItsInputChanged) {
  text_.write("a.txt", english_text());
  PrepareOptions chosen = options("killed");
  chosen.journal_every = std::chrono::milliseconds(0);
  prepare_until_killed(chosen);
  text_.write("b.txt", chinese_text());
  const auto report = prepare(chosen);
  ASSERT_TRUE(report) << report.error();
  EXPECT_EQ(report->gone_on_from, 0);
  ASSERT_TRUE(prepare(options("whole")));
  EXPECT_EQ(contents(out_.path("killed")), contents(out_.path("whole")));
}

// The second run is killed before it has written down anything: what the first one has must not be gone on from with its files.
TEST_F(PrepareTest, ARunDoesNotGoOnBehindTheTokensOfAnother) {
  write_texts();
  PrepareOptions first = options("data"), second = options("data");
  first.journal_every = std::chrono::milliseconds(0);
  first.batch_bytes = second.batch_bytes = 1;
  second.seed = 7;
  prepare_until_killed(first);
  prepare_until_killed(second);
  ASSERT_TRUE(prepare(first));
  ASSERT_TRUE(prepare(options("whole")));
  EXPECT_EQ(contents(out_.path("data")), contents(out_.path("whole")));
}

TEST_F(PrepareTest, FilesThatNoRunHasMadeAreLeftAlone) {
  write_texts();
  out_.write("model/tokenizer.json", "another's");
  EXPECT_THAT(refusal_of(options("model")),
              AllOf(HasSubstr("model: has tokenizer.json, and no info.json"), HasSubstr("another output folder")));
  EXPECT_EQ(contents(out_.path("model")), (std::map<std::string, std::string>{{"tokenizer.json", "another's"}}));
}

TEST_F(PrepareTest, WhatAnEarlierProcessHasKeptStaysWhereThisOneFails) {
  const std::string path = out_.path("train.bin");
  {
    NewFile file(path);
    file.write("kept", 4);
    ASSERT_TRUE(file.keep());
    file.write("lost", 4);
  }
  {
    NewFile file(path, 4);
    file.write("more", 4);
  }
  EXPECT_EQ(out_.read("train.bin.tmp"), "keptmore");
  EXPECT_FALSE(NewFile(path, 9).state()) << "it has no 9 bytes";
  { const NewFile anew(path); }
  EXPECT_FALSE(std::filesystem::exists(path + ".tmp"));
}

TEST_F(PrepareTest, TwoRunsDoNotWriteOneFolderAtOnce) {
  write_texts();
  std::filesystem::create_directories(out_.path("data"));
  const NewFile other(out_.path("data/train.bin"));
  EXPECT_THAT(refusal_of(options("data")), HasSubstr("data/train.bin: another process is writing it"));
}

}  // namespace
}  // namespace holdfast::model

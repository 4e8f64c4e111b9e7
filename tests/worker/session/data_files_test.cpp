// The files of a job: one, or a mixture of several, with digests that all members must have alike.
#include "worker/session/data_files.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace holdfast::worker {
namespace {

class DataFilesOfAJob : public ::testing::Test {
 protected:
  DataFilesOfAJob() {
    std::string name = (std::filesystem::temp_directory_path() / "data-files-XXXXXX").string();
    folder = mkdtemp(name.data());
    write("a.bin", 40, 1);
    write("b.bin", 20, 2);
    write("short.bin", 8, 1);
    write("large_id.bin", 40, 300);
    spec.block_size = 8;
    spec.vocab_size = 256;
  }
  ~DataFilesOfAJob() override { std::filesystem::remove_all(folder); }

  void write(const std::string& name, int tokens, int last) const {
    std::ofstream file(folder + "/" + name, std::ios::binary);
    for (int i = 1; i <= tokens; ++i) {
      const int id = i == tokens ? last : i;
      file.put(static_cast<char>(id & 0xFF)).put(static_cast<char>(id >> 8));
    }
  }
  tl::expected<DataFiles, std::string> open(const std::string& training, const std::string& validation = "") {
    spec.train_data_path = training;
    spec.valid_data_path = validation;
    return open_data_files(spec, {.data_root = folder});
  }
  std::string refusal(const std::string& training, const std::string& validation = "") {
    const auto files = open(training, validation);
    return files ? "" : files.error();
  }

  std::string folder;
  rendezvous::JobSpec spec;
};

TEST_F(DataFilesOfAJob, AreOneFileWithItsOwnDigest) {
  const auto files = open("a.bin", "b.bin");
  ASSERT_TRUE(files) << files.error();
  ASSERT_EQ(files->training.size(), 1U);
  EXPECT_EQ(files->training[0].arrival, nullptr) << "it is whole";
  EXPECT_EQ(files->training_tokens(), 40);
  EXPECT_EQ(files->training_paths(), folder + "/a.bin");
  EXPECT_EQ(rendezvous::to_text(files->digest()), files->training[0].digest + "+" + files->validation_digest);
}

TEST_F(DataFilesOfAJob, AreAMixtureWithShares) {
  const auto files = open("a.bin:0.75,b.bin:0.25");
  ASSERT_TRUE(files) << files.error();
  ASSERT_EQ(files->training.size(), 2U);
  EXPECT_EQ(files->training[0].share, 3);
  EXPECT_EQ(files->training[1].share, 1);
  EXPECT_EQ(files->training_tokens(), 60);
  EXPECT_EQ(files->training_paths(), folder + "/a.bin:3," + folder + "/b.bin:1");
  EXPECT_EQ(rendezvous::to_text(files->digest()), files->training[0].digest + "*3," + files->training[1].digest + "*1");
}

TEST_F(DataFilesOfAJob, AreRefusedByTheNameOfTheOneThatIsWrong) {
  EXPECT_EQ(refusal("a.bin:1,short.bin:1").find(folder + "/short.bin: has 8 tokens, but one sequence takes block_size + 1 = 9"),
            0U);
  EXPECT_EQ(refusal("a.bin:1,large_id.bin:1").find(folder + "/large_id.bin: token 300 at byte 78"), 0U)
      << refusal("a.bin:1,large_id.bin:1");
  EXPECT_NE(refusal("a.bin:1,none.bin:1").find(folder + "/none.bin"), std::string::npos);
  EXPECT_NE(refusal("a.bin:1,../b.bin:1").find("../b.bin: leads to "), std::string::npos);
}

TEST_F(DataFilesOfAJob, OfADataSetCannotBeFetched) {
  EXPECT_EQ(refusal("a.bin:1,code:1"), "data:code/train.bin: this worker has no way to fetch data sets");
  EXPECT_EQ(refusal("a.bin", "data:wiki"), "data:wiki/val.bin: this worker has no way to fetch data sets");
}

TEST_F(DataFilesOfAJob, OfAServiceThatTakesOtherWordsAreRefused) {
  EXPECT_EQ(refusal("a.bin:1,b.bin"),
            "train_data_path: \"b.bin\" has no weight: in a mixture each source has one, such as wiki:0.7,code:0.3");
  EXPECT_EQ(refusal("a.bin", "a.bin:1,b.bin:1"),
            "valid_data_path: a.bin:1,b.bin:1: is a mixture, and a job is evaluated on one file: name one of them");
}

}  // namespace
}  // namespace holdfast::worker

// The data sets that a spec names, looked up.
#include "rendezvous/data_sets/pinned.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/rendezvous/data_sets/manifests.h"

namespace holdfast::rendezvous {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;
using testing::UnorderedElementsAre;

class PinnedTest : public testing::Test {
 protected:
  PinnedTest() {
    FoundDataSets found;
    for (const char* name : {"wiki", "code"}) {
      const std::string train = std::string(name) + " train", valid = std::string(name) + " val";
      DataManifest manifest;
      manifest.files = {{"train.bin", static_cast<int64_t>(train.size()), {chunk_named(train)}, 5000, 255, "5000-a"},
                        {"val.bin", static_cast<int64_t>(valid.size()), {chunk_named(valid)}, 900, 300, "900-a"}};
      found.sets.push_back(set_of(manifest));
      found.names.push_back({name, found.sets.back().digest, 1});
      (std::string(name) == "wiki" ? wiki_ : code_) = found.sets.back().digest;
    }
    catalogue_.load(found);
    spec_.vocab_size = 512;
    spec_.block_size = 128;
  }
  // The error about train_data_path; "": there is none.
  std::string wrong(const std::string& train) {
    spec_.train_data_path = train;
    const auto errors = pin_data_sets(catalogue_, spec_);
    if (errors.empty()) return "";
    EXPECT_EQ(errors.front().field, "train_data_path");
    return errors.front().message;
  }
  std::string pinned(const std::string& train) {
    EXPECT_EQ(wrong(train), "");
    return spec_.train_data_path;
  }
  Catalogue catalogue_;
  std::string wiki_, code_;
  JobSpec spec_;
};

TEST_F(PinnedTest, ADataSetGetsItsDigest) {
  EXPECT_EQ(pinned("data:wiki"), "data:wiki@" + wiki_ + "/train.bin");
  EXPECT_EQ(pinned("data:wiki/val.bin"), "data:wiki@" + wiki_ + "/val.bin");
  EXPECT_EQ(pinned("data:wiki@" + wiki_), "data:wiki@" + wiki_ + "/train.bin");
}

TEST_F(PinnedTest, AMixtureIsWrittenInOneForm) {
  const std::string text = pinned("wiki:0.75,code:0.25");
  EXPECT_EQ(text, "data:wiki@" + wiki_ + "/train.bin:3,data:code@" + code_ + "/train.bin:1");
  EXPECT_EQ(pinned(text), text);
  EXPECT_THAT(data_sets_of(spec_), UnorderedElementsAre(wiki_, code_));
}

TEST_F(PinnedTest, FilesAreLeftAsTheyAre) {
  EXPECT_EQ(pinned("/d/train.bin"), "/d/train.bin");
  EXPECT_EQ(pinned("/d/a.bin:0.5,/d/b.bin:0.5"), "/d/a.bin:0.5,/d/b.bin:0.5");
  EXPECT_THAT(data_sets_of(spec_), IsEmpty());
}

TEST_F(PinnedTest, TheValidationFileIsLookedUpToo) {
  spec_.train_data_path = "/d/train.bin";
  spec_.valid_data_path = "data:wiki";
  EXPECT_THAT(pin_data_sets(catalogue_, spec_), IsEmpty());
  EXPECT_EQ(spec_.valid_data_path, "data:wiki@" + wiki_ + "/val.bin");
  spec_.valid_data_path = "data:wik";
  const auto errors = pin_data_sets(catalogue_, spec_);
  ASSERT_THAT(errors, SizeIs(1));
  EXPECT_EQ(errors[0].field, "valid_data_path");
}

TEST_F(PinnedTest, AnUnknownNameIsRefusedWithTheNearest) {
  const std::string message = wrong("data:wikki");
  EXPECT_THAT(message, HasSubstr("did you mean wiki?"));
  EXPECT_THAT(message, HasSubstr("holdfast data ls"));
  EXPECT_THAT(message, HasSubstr("holdfast data push"));
  EXPECT_THAT(wrong("data:wiki@" + std::string(64, 'b')), HasSubstr("no data set with the digest"));
}

TEST_F(PinnedTest, AFileThatTheDataSetLacksIsRefusedWithThoseThatItHas) {
  EXPECT_THAT(wrong("data:wiki/test.bin"), HasSubstr("it has train.bin and val.bin"));
}

TEST_F(PinnedTest, IdsBeyondTheVocabularyAreRefusedWithBothNumbers) {
  spec_.vocab_size = 255;
  EXPECT_THAT(wrong("data:wiki"),
              testing::AllOf(HasSubstr("token id 255"), HasSubstr("vocab_size is 255"), HasSubstr("at least 256")));
}

TEST_F(PinnedTest, DataShorterThanASequenceAreRefused) {
  spec_.block_size = 5000;
  EXPECT_THAT(wrong("data:wiki"), testing::AllOf(HasSubstr("5000 tokens"), HasSubstr("needs 5001")));
}

}  // namespace
}  // namespace holdfast::rendezvous

#include "rendezvous/protocol/data_source.h"

#include <gtest/gtest.h>

#include "rendezvous/protocol/job_spec.h"

namespace holdfast::rendezvous {
namespace {

const std::string kDigest(64, 'a');

std::string training(const std::string& text) {
  const auto sources = parse_training_sources(text);
  return sources ? to_text(*sources) : "refused: " + sources.error();
}

TEST(DataSource, APathIsAPathWhateverIsInIt) {
  for (const char* path : {"train.bin", "/data/train.bin", "a,b.bin", "/data/x:1/train.bin", "wiki", "wiki:0.7"})
    EXPECT_EQ(training(path), path);
}

TEST(DataSource, ADataSetHasUsualFiles) {
  EXPECT_EQ(training("data:wiki"), "data:wiki/train.bin");
  EXPECT_EQ(training("data:wiki/more.bin"), "data:wiki/more.bin");
  EXPECT_EQ(training("data:wiki@" + kDigest), "data:wiki@" + kDigest + "/train.bin");
  EXPECT_EQ(parse_validation_source("data:wiki")->file, "val.bin");
}

TEST(DataSource, WeightsBecomeTheSmallestShares) {
  EXPECT_EQ(training("wiki:0.7,code:0.3"), "data:wiki/train.bin:7,data:code/train.bin:3");
  EXPECT_EQ(training("data:wiki:2,/data/x.bin:6,y.bin:0.5"), "data:wiki/train.bin:4,/data/x.bin:12,y.bin:1");
  EXPECT_EQ(training("a:0.0001,b:999999"), "data:a/train.bin:0.0001,data:b/train.bin:999999.0000");
}

TEST(DataSource, ItsOwnTextIsParsedToTheSame) {
  for (const std::string text : {"x.bin", "data:wiki", "wiki:0.7,code:0.3,/d/x.bin:1", "wiki:350.1234,code:120.5678",
                                 "a:0.0001,b:999999", "a:99.9999,b:0.0001", "a:100,b:0.0001"}) {
    const auto sources = parse_training_sources(text);
    const auto again = parse_training_sources(to_text(*sources));
    ASSERT_TRUE(again) << again.error();
    EXPECT_EQ(*again, *sources) << text;
  }
}

TEST(DataSource, WrongTextIsRefusedWithWhatWasExpected) {
  EXPECT_EQ(training("data:a b"),
            "refused: data:a b: \"a b\" is no name of a data set: 1 to 63 letters, digits and ._- ; "
            "`holdfast data ls` lists them");
  EXPECT_EQ(training("data:wiki@12"),
            "refused: data:wiki@12: \"12\" is no digest of a data set, which has 64 hex digits: leave "
            "it out, and the job takes what has the name now");
  EXPECT_EQ(training("data:wiki/../x"),
            "refused: data:wiki/../x: \"../x\" is no file of a data set: expected data:NAME/FILE, "
            "such as data:wiki/train.bin");
  EXPECT_EQ(training("wiki:0.7,code"),
            "refused: \"code\" has no weight: in a mixture each source has one, such as "
            "wiki:0.7,code:0.3");
  for (const char* weight : {"0", "-1", "0.00001", "1e3", "1234567", "."}) {
    EXPECT_EQ(training(std::string("wiki:") + weight + ",code:1"),
              std::string("refused: the weight \"") + weight +
                  "\" of wiki: expected a number above 0, with at most 4 digits behind the point and 6 before it");
  }
  EXPECT_EQ(parse_validation_source("a:1,b:1").error(),
            "a:1,b:1: is a mixture, and a job is evaluated on one file: name one of them");
}

TEST(DataSource, TheTrainingFolderIsThatOfTheFirstFile) {
  EXPECT_EQ(training_folder("/data/x/train.bin"), "/data/x");
  EXPECT_EQ(training_folder("train.bin"), ".");
  EXPECT_EQ(training_folder("data:wiki:1,/data/y/b.bin:2,/data/z/c.bin:1"), "/data/y");
  EXPECT_EQ(training_folder("data:wiki"), "");
}

TEST(DataSource, TheSpecNamesItsField) {
  const auto refused = [](const nlohmann::json& spec) { return parse_job_spec(spec).error().at(0); };
  EXPECT_EQ(refused({{"train_data_path", "data:"}}).field, "train_data_path");
  EXPECT_EQ(refused({{"train_data_path", "x"}, {"valid_data_path", "data:?"}}).field, "valid_data_path");
  EXPECT_EQ(refused({{"train_data_path", "a:1,b:1"}, {"epochs", 2}}).field, "epochs");
}

}  // namespace
}  // namespace holdfast::rendezvous

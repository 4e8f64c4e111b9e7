// Token files: both formats, and refusals that name the file, the byte and what to do.
#include "model/data/token_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <numeric>
#include <vector>

#include "model/data/describe.h"
#include "tests/model/temporary_folder.h"

namespace holdfast::model {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::string raw(const std::vector<uint16_t>& ids) {
  return {reinterpret_cast<const char*>(ids.data()), ids.size() * sizeof(uint16_t)};
}

std::string llmc(const std::vector<uint16_t>& ids, int32_t version, int32_t claimed_tokens) {
  std::vector<int32_t> header(256);
  header[0] = 20240520, header[1] = version, header[2] = claimed_tokens;
  return std::string(reinterpret_cast<const char*>(header.data()), 1024) + raw(ids);
}

std::vector<uint16_t> counting_ids(size_t count) {
  std::vector<uint16_t> ids(count);
  std::iota(ids.begin(), ids.end(), uint16_t{0});
  return ids;
}

class TokenFileTest : public ::testing::Test {
 protected:
  std::string refusal_of(const std::string& bytes) {
    const auto file = TokenFile::open(folder_.write("t.bin", bytes));
    return file ? "opened" : file.error();
  }
  TemporaryFolder folder_;
};

TEST_F(TokenFileTest, ReadsRawIdsAsNanoGptWritesThem) {
  const std::vector<uint16_t> ids = {1, 2, 50256, 65535};
  const auto file = TokenFile::open(folder_.write("train.bin", raw(ids)));
  ASSERT_TRUE(file) << file.error();
  EXPECT_STREQ((*file)->format(), "nanogpt");
  EXPECT_EQ(std::vector<uint16_t>((*file)->tokens().begin(), (*file)->tokens().end()), ids);
  EXPECT_EQ((*file)->path(), folder_.path("train.bin"));
}

TEST_F(TokenFileTest, ReadsAHeaderAndIdsAsLlmcWritesThem) {
  const std::vector<uint16_t> ids = {7, 8, 9};
  const auto file = TokenFile::open(folder_.write("train.bin", llmc(ids, 1, 3)));
  ASSERT_TRUE(file) << file.error();
  EXPECT_STREQ((*file)->format(), "llm.c");
  EXPECT_EQ(std::vector<uint16_t>((*file)->tokens().begin(), (*file)->tokens().end()), ids);
}

TEST_F(TokenFileTest, TheDigestIsOfTheIdsInBothFormats) {
  const auto ids = counting_ids(1000);
  const auto one = TokenFile::open(folder_.write("a.bin", raw(ids)));
  const auto other = TokenFile::open(folder_.write("b.bin", llmc(ids, 1, 1000)));
  EXPECT_EQ((*one)->digest(), (*other)->digest());
  EXPECT_THAT((*one)->digest(), ::testing::MatchesRegex("1000-[0-9a-f]+"));
  EXPECT_EQ((*one)->digest().size(), std::strlen("1000-") + 32);

  auto changed = ids;
  changed[999] ^= 1;
  EXPECT_NE((*TokenFile::open(folder_.write("c.bin", raw(changed))))->digest(), (*one)->digest());
}

TEST_F(TokenFileTest, RefusesAMissingFile) {
  const auto file = TokenFile::open(folder_.path("absent.bin"));
  ASSERT_FALSE(file);
  EXPECT_THAT(file.error(), AllOf(HasSubstr("absent.bin"), HasSubstr("No such file"), HasSubstr("holdfast data prepare")));
}

TEST_F(TokenFileTest, RefusesAFolderAndNamesTheFileInIt) {
  const auto file = TokenFile::open(folder_.path());
  ASSERT_FALSE(file);
  EXPECT_THAT(file.error(), AllOf(HasSubstr("is a folder"), HasSubstr("train.bin")));
}

TEST_F(TokenFileTest, RefusesAnEmptyFile) {
  EXPECT_THAT(refusal_of(""), AllOf(HasSubstr("t.bin"), HasSubstr("empty (0 bytes)")));
}

TEST_F(TokenFileTest, RefusesHalfAnIdAndSaysWhere) {
  EXPECT_THAT(refusal_of(raw({1, 2, 3}) + "x"), AllOf(HasSubstr("odd number of bytes (7)"), HasSubstr("at byte 6")));
}

TEST_F(TokenFileTest, RefusesATruncatedHeader) {
  EXPECT_THAT(refusal_of(llmc({}, 1, 5).substr(0, 600)),
              AllOf(HasSubstr("ends at byte 600"), HasSubstr("header of 1024 bytes")));
}

TEST_F(TokenFileTest, RefusesTruncatedIds) {
  EXPECT_THAT(refusal_of(llmc({1, 2, 3}, 1, 5)),
              AllOf(HasSubstr("ends at byte 1030"), HasSubstr("5 tokens"), HasSubstr("byte 1034"), HasSubstr("is truncated")));
}

TEST_F(TokenFileTest, RefusesBytesAfterTheEnd) {
  EXPECT_THAT(refusal_of(llmc({1, 2, 3}, 1, 2)), AllOf(HasSubstr("2 tokens"), HasSubstr("after its end")));
}

TEST_F(TokenFileTest, RefusesAnotherVersionOfTheHeader) {
  EXPECT_THAT(refusal_of(llmc({1, 2, 3}, 7, 3)),
              AllOf(HasSubstr("version 7"), HasSubstr("at byte 4"), HasSubstr("expected 1")));
}

TEST_F(TokenFileTest, RefusesAHeaderWithoutTokens) {
  EXPECT_THAT(refusal_of(llmc({}, 1, 0)), AllOf(HasSubstr("0 tokens"), HasSubstr("byte 8")));
}

TEST_F(TokenFileTest, NamesTheFirstIdBeyondTheVocabularyAndItsByte) {
  std::vector<uint16_t> ids(200'000, 10);
  ids[150'001] = 300;
  ids[150'002] = 301;
  const auto plain = TokenFile::open(folder_.write("a.bin", raw(ids)));
  const auto refused = (*plain)->check_ids(300);
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error(), AllOf(HasSubstr("a.bin: token 300 at byte 300002 (token 150001)"), HasSubstr("vocab_size 300")));
  EXPECT_TRUE((*plain)->check_ids(302));

  const auto with_header = TokenFile::open(folder_.write("b.bin", llmc(ids, 1, 200'000)));
  EXPECT_THAT((*with_header)->check_ids(11).error(), HasSubstr("b.bin: token 300 at byte 301026 (token 150001)"));
}

TEST_F(TokenFileTest, TheLargestIdFitsAVocabularyOf65536Only) {
  const auto file = TokenFile::open(folder_.write("a.bin", raw({65535})));
  EXPECT_FALSE((*file)->check_ids(65535));
  EXPECT_TRUE((*file)->check_ids(65536));
}

TEST_F(TokenFileTest, IsDescribedWithTheFilesBesideIt) {
  const std::string path = folder_.write("train.bin", raw({3, 9, 3, 700}));
  const std::string digest = (*TokenFile::open(path))->digest();
  auto described = describe_data_file(path);
  ASSERT_TRUE(described) << described.error();
  EXPECT_EQ(described->tokens, 4);
  EXPECT_EQ(described->bytes, 8);
  EXPECT_EQ(described->largest_id, 700);
  EXPECT_EQ(described->distinct_ids, 3);
  EXPECT_EQ(described->digest, digest);
  EXPECT_EQ(described->info, "");
  EXPECT_FALSE(described->listed);

  folder_.write("info.json", R"({"train": {"digest": ")" + digest + R"("}, "validation": null})");
  described = describe_data_file(path);
  EXPECT_THAT(described->info, HasSubstr(digest));
  EXPECT_TRUE(described->listed);

  folder_.write("info.json", "no JSON");
  EXPECT_EQ(describe_data_file(path)->info, "");
}

}  // namespace
}  // namespace holdfast::model

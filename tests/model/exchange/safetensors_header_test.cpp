// Headers that anybody may have made: the good ones are read, all others are refused with the entry and what is wrong with it.
#include "model/exchange/safetensors_header.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "model/exchange/safetensors_file.h"
#include "tests/model/temporary_folder.h"

namespace holdfast::model {
namespace {

using ::testing::HasSubstr;

std::string entry(const std::string& name, const std::string& dtype, const std::string& shape, const std::string& offsets) {
  return fmt::format(R"("{}":{{"dtype":"{}","shape":{},"data_offsets":{}}})", name, dtype, shape, offsets);
}

// "" for a header that is taken.
std::string problem(const std::string& header, int64_t data_bytes = 16) {
  const auto tensors = parse_safetensors_header(header, data_bytes);
  return tensors ? "" : tensors.error();
}

const std::string kA = entry("a", "F32", "[2]", "[0,8]"), kB = entry("b", "BF16", "[2,2]", "[8,16]");

TEST(SafetensorsHeader, IsReadInTheOrderOfTheBytes) {
  const auto tensors = parse_safetensors_header("{" + kB + "," + kA + R"(,"__metadata__":{"format":"pt","step":"60"}}   )", 16);
  ASSERT_TRUE(tensors) << tensors.error();
  ASSERT_EQ(tensors->size(), 2U);
  EXPECT_EQ((*tensors)[0].name, "a");
  EXPECT_EQ((*tensors)[1].begin, 8);
  EXPECT_EQ((*tensors)[1].shape, (std::vector<int64_t>{2, 2}));
  EXPECT_EQ(problem("{}", 0), "");
  EXPECT_EQ(problem("{" + entry("none", "F32", "[0,5]", "[0,0]") + "," + entry("one", "F32", "[]", "[0,4]") + "}", 4), "")
      << "no element, and a scalar";
}

TEST(SafetensorsHeader, ThatIsNoObjectOfEntriesIsRefused) {
  EXPECT_THAT(problem(""), HasSubstr("not JSON, at byte"));
  EXPECT_THAT(problem("{" + kA), HasSubstr("not JSON, at byte"));
  EXPECT_THAT(problem("{" + kA + "} x"), HasSubstr("not JSON, at byte"));
  EXPECT_THAT(problem("{\"\xFF\":1}"), HasSubstr("not JSON, at byte"));
  EXPECT_THAT(problem("[" + std::string(100000, '[')), HasSubstr("its header is an array, expected an object"));
  EXPECT_THAT(problem("17"), HasSubstr("expected an object"));
  EXPECT_THAT(problem(R"({"a":[]})"), HasSubstr("\"a\" has an array where none belongs"));
  EXPECT_THAT(problem(R"({"a":"F32"})"), HasSubstr("\"a\" has a text where none belongs"));
  EXPECT_THAT(problem(R"({"__metadata__":{"a":{}}})"), HasSubstr("\"__metadata__\" has an object where none belongs"));
}

TEST(SafetensorsHeader, WithAnEntryThatLacksOrHasAnythingElseIsRefused) {
  EXPECT_THAT(problem(R"({"a":{"dtype":"F32","shape":[2]}})"), HasSubstr("\"a\" has no data_offsets"));
  EXPECT_THAT(problem(R"({"a":{"shape":[2],"data_offsets":[0,8]}})"), HasSubstr("\"a\" has no dtype"));
  EXPECT_THAT(problem(R"({"a":{"dtype":"F32","dtype":"F16"}})"), HasSubstr("\"a\" has dtype twice"));
  EXPECT_THAT(problem(R"({"a":{"strides":[2]}})"), HasSubstr("\"a\" has a field \"strides\""));
  EXPECT_THAT(problem("{" + entry("a", "F32", "[-2]", "[0,8]") + "}"), HasSubstr("\"a\" has -2 where none belongs"));
  EXPECT_THAT(problem("{" + entry("a", "F32", "[2.0]", "[0,8]") + "}"), HasSubstr("\"a\" has \"2.0\" where none belongs"));
  EXPECT_THAT(problem("{" + entry("a", "F32", "[[2]]", "[0,8]") + "}"), HasSubstr("an array where none belongs"));
  EXPECT_THAT(problem("{" + entry("a", "F32", "[18446744073709551615]", "[0,8]") + "}"), HasSubstr("which is too large"));
  EXPECT_THAT(problem("{" + entry("a", "F32", "[1,1,1,1,1,1,1,1,2]", "[0,8]") + "}"),
              HasSubstr("more than 8 numbers in shape"));
  EXPECT_THAT(problem("{" + entry("a", "F32", "[2]", "[0,8,8]") + "}"), HasSubstr("data_offsets of 3 numbers"));
  EXPECT_THAT(problem("{" + entry("a", "F32", "[2]", "[8,0]") + "}"), HasSubstr("\"a\" begins at 8 and ends at 0"));
  EXPECT_THAT(problem("{" + kA + "," + kA + "}"), HasSubstr("\"a\" is there twice"));
}

TEST(SafetensorsHeader, WhoseTensorsDoNotFillTheDataIsRefused) {
  EXPECT_THAT(problem("{" + kA + "," + kB + "}", 12),
              HasSubstr("\"b\" lies at bytes 8 to 16 of the data, of which the file has 12"));
  EXPECT_THAT(problem("{" + kA + "," + kB + "}", 20), HasSubstr("bytes 16 to 20 of the data, its end, belong to no tensor"));
  EXPECT_THAT(problem("{" + kA + "," + entry("b", "F32", "[2]", "[4,12]") + "}"),
              HasSubstr("\"b\" begins at byte 4 of the data, where \"a\" lies, which ends at 8"));
  EXPECT_THAT(problem("{" + kA + "," + entry("b", "F32", "[1]", "[12,16]") + "}"),
              HasSubstr("bytes 8 to 12 of the data belong to no tensor, before \"b\""));
  EXPECT_THAT(problem("{" + entry("a", "F32", "[3]", "[0,16]") + "}"),
              HasSubstr("\"a\" has 16 bytes, its shape (3) of F32 takes 12"));
  EXPECT_THAT(problem("{" + entry("a", "Q4", "[4]", "[0,16]") + "}"), HasSubstr("\"a\" is of an unknown type \"Q4\""));
  EXPECT_THAT(problem("{" + entry("a", "F32", "[4294967296,4294967296,4294967296]", "[0,16]") + "}"),
              HasSubstr("more than can be counted"));
  EXPECT_THAT(problem("{" + entry("a", "U8", "[9223372036854775807]", "[0,9223372036854775807]") + "}"),
              HasSubstr("of which the file has 16"));
}

TEST(SafetensorsHeader, OfTooManyTensorsIsRefusedWhenTheyAreSeen) {
  std::string header = "{";
  for (size_t i = 0; i <= kHeaderTensorsMax; ++i) header += entry(std::to_string(i), "F32", "[0]", "[0,0]") + ",";
  EXPECT_THAT(problem(header), HasSubstr("more than 65536 tensors"));
}

// No change of one byte, and no cut, makes the reader do anything but take it or refuse it.
TEST(SafetensorsHeader, ThatWasChangedAnywhereIsTakenOrRefused) {
  const std::string whole = "{" + kA + "," + kB + R"(,"__metadata__":{"format":"pt"}})";
  std::mt19937 random(7);
  int refused = 0;
  for (int round = 0; round < 20000; ++round) {
    std::string header = whole;
    for (int change = 0; change <= round % 3; ++change) header[random() % header.size()] = static_cast<char>(random() % 256);
    if (round % 5 == 0) header.resize(random() % header.size());
    refused += parse_safetensors_header(header, 16) ? 0 : 1;
  }
  EXPECT_GT(refused, 10000);
}

TEST(SafetensorsFile, ThatIsNoneIsRefusedWithItsPath) {
  const TemporaryFolder folder;
  const auto refusal = [&](const std::string& bytes) {
    const auto file = SafetensorsFile::open(folder.write("x.safetensors", bytes));
    return file ? "it was opened" : file.error();
  };
  const auto length = [](uint64_t bytes) { return std::string(reinterpret_cast<const char*>(&bytes), sizeof bytes); };
  const std::string path = folder.path("x.safetensors");
  EXPECT_EQ(refusal("1234567"), path + ": has 7 bytes: it is not a safetensors file");
  EXPECT_THAT(refusal(length(100) + "{}"), HasSubstr(path + ": says that its header has 100 bytes, and has 2 after that"));
  EXPECT_THAT(refusal(length(~uint64_t{0}) + "{}"), HasSubstr("says that its header has 18446744073709551615 bytes"));
  EXPECT_THAT(refusal(length(kHeaderBytesMax + 8) + std::string(kHeaderBytesMax + 8, ' ')),
              HasSubstr("expected at most 16777216"));
  EXPECT_EQ(refusal(length(4) + "true"), path + ": its header is a truth value, expected an object");
  EXPECT_THAT(SafetensorsFile::open(folder.path()).error(), HasSubstr("is not a file"));
  EXPECT_THAT(SafetensorsFile::open(folder.path("missing")).error(), HasSubstr("No such file or directory"));
}

TEST(SafetensorsFile, ThatShrinksWhileItIsReadIsAnError) {
  const TemporaryFolder folder;
  const std::string header = "{" + entry("a", "F32", "[4]", "[0,16]") + "}";
  const uint64_t bytes = header.size();
  const std::string path =
      folder.write("x.safetensors", std::string(reinterpret_cast<const char*>(&bytes), 8) + header + std::string(16, 'x'));
  const auto file = SafetensorsFile::open(path);
  ASSERT_TRUE(file) << file.error();
  std::vector<std::byte> memory(16);
  EXPECT_TRUE(file->read(file->tensors()[0], 0, memory));
  EXPECT_FALSE(file->read(file->tensors()[0], 4, memory)) << "beyond the tensor";
  std::filesystem::resize_file(path, std::filesystem::file_size(path) - 4);
  EXPECT_THAT(file->read(file->tensors()[0], 0, memory).error(), HasSubstr("somebody cut it short"));
}

}  // namespace
}  // namespace holdfast::model

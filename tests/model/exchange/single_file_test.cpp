// An export as one file: what is unpacked from it is what an export into a folder writes.
#include "model/exchange/download/single_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "model/data/byte_tokenizer.h"
#include "model/data/text/archive_reader.h"
#include "model/exchange/download/tar.h"
#include "tests/model/exchange/parameters.h"
#include "tests/model/temporary_folder.h"

namespace holdfast::model {
namespace {

namespace fs = std::filesystem;
using kernels::DType;

class SingleFileTest : public ::testing::Test {
 protected:
  ExportRequest request(ExchangeFormat format, DType dtype = DType::kFloat32) const {
    return {format, dtype, tokenizer_.get(), folder_.path("folder"), "j1 step 60"};
  }
  std::string bytes_of(const SingleFile& file) {
    std::string all;
    const auto written = file.write(
        [&](std::span<const std::byte> piece) { all.append(reinterpret_cast<const char*>(piece.data()), piece.size()); });
    EXPECT_TRUE(written) << written.error();
    EXPECT_EQ(static_cast<int64_t>(all.size()), file.bytes) << "as announced";
    return all;
  }
  // The files of an archive, by libarchive.
  std::map<std::string, std::string> unpacked(const std::string& tar) {
    folder_.write("one.tar", tar);
    std::map<std::string, std::string> files;
    ArchiveReader reader(folder_.path("one.tar"));
    for (auto name = reader.next_file(); name && *name; name = reader.next_file()) {
      std::string& bytes = files[(*name)->substr((*name)->find(": ") + 2)];
      for (auto piece = reader.next_bytes(); piece && !piece->empty(); piece = reader.next_bytes()) bytes += *piece;
    }
    return files;
  }
  std::map<std::string, std::string> in_folder(const std::string& before) const {
    std::map<std::string, std::string> files;
    for (const auto& file : fs::directory_iterator(folder_.path("folder"))) {
      const std::string name = file.path().filename().string();
      files[before + name] = folder_.read("folder/" + name);
    }
    return files;
  }

  TemporaryFolder folder_;
  std::unique_ptr<Tokenizer> tokenizer_ = make_byte_tokenizer();
  std::vector<float> values_ = random_parameters(kExchangeConfig);
  WeightSource source_ = parameters_in(kExchangeConfig, values_);
};

TEST_F(SingleFileTest, AnArchiveHasTheFilesOfTheFolder) {
  const std::pair<ExchangeFormat, DType> cases[] = {{ExchangeFormat::kSafetensors, DType::kFloat32},
                                                    {ExchangeFormat::kSafetensors, DType::kBFloat16},
                                                    {ExchangeFormat::kNpz, DType::kFloat16}};
  for (const auto& [format, dtype] : cases) {
    fs::remove_all(folder_.path("folder"));
    ASSERT_TRUE(export_model(source_, request(format, dtype)));
    const auto file = single_file(source_, request(format, dtype), "j1-step-60");
    ASSERT_TRUE(file) << file.error();
    EXPECT_EQ(file->media_type, "application/x-tar");
    const std::string once = bytes_of(*file);
    EXPECT_EQ(unpacked(once), in_folder("j1-step-60/"));
    EXPECT_TRUE(bytes_of(*file) == once) << "the same bytes each time";
  }
}

TEST_F(SingleFileTest, GgufIsOneFileAsItIs) {
  ASSERT_TRUE(export_model(source_, request(ExchangeFormat::kGguf)));
  const auto file = single_file(source_, request(ExchangeFormat::kGguf), "j1-step-60");
  ASSERT_TRUE(file) << file.error();
  EXPECT_EQ(file->name, "j1-step-60.gguf");
  EXPECT_TRUE(bytes_of(*file) == folder_.read("folder/model.gguf"));
}

TEST_F(SingleFileTest, WhatCannotBeReadOrWrittenIsKnownBeforeTheFirstByte) {
  WeightSource broken = source_;
  broken.read = [](auto) -> tl::expected<void, std::string> { return tl::unexpected(std::string("shard-0000: is damaged")); };
  EXPECT_EQ(single_file(broken, request(ExchangeFormat::kSafetensors), "x").error(), "shard-0000: is damaged");
  values_[3] = 70000;
  EXPECT_THAT(single_file(source_, request(ExchangeFormat::kNpz, DType::kFloat16), "x").error(),
              ::testing::HasSubstr("which float16 does not reach"));
  WeightSource other = source_;
  other.config.n_head = 5;
  EXPECT_THAT(single_file(other, request(ExchangeFormat::kNpz), "x").error(), ::testing::HasSubstr("cannot be built"));
}

TEST(Tar, SizesOfEightGibibytesAndMoreAreBinary) {
  EXPECT_EQ(tar_head("a", (int64_t{1} << 33) - 1).substr(124, 12), std::string("77777777777\0", 12));
  EXPECT_EQ(tar_head("a", (int64_t{5} << 33) + 258).substr(124, 12), std::string("\x80\0\0\0\0\0\0\x0A\0\0\x01\x02", 12));
  EXPECT_EQ(tar_padding(0).size(), 0U);
  EXPECT_EQ(tar_padding(513).size(), 511U);
  EXPECT_EQ(tar_padding(1024).size(), 0U);
}

}  // namespace
}  // namespace holdfast::model

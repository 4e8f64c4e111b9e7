// Exports: what is written is read again as the same parameters, and nothing appears that is not whole.
#include "model/exchange/export.h"
#include "model/exchange/tokenizer_kinds.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "kernels/dtype.h"
#include "model/data/byte_pairs/tokenizer.h"
#include "model/data/byte_tokenizer.h"
#include "model/data/sentencepiece_tokenizer.h"
#include "model/exchange/hugging_face_model.h"
#include "tests/model/exchange/parameters.h"
#include "tests/model/sample_text.h"
#include "tests/model/temporary_folder.h"

namespace holdfast::model {
namespace {

namespace fs = std::filesystem;
using kernels::DType;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;
using Exported = tl::expected<std::vector<ExportedFile>, std::string>;

std::vector<std::string> names_in(const std::string& folder) {
  std::vector<std::string> names;
  for (const auto& file : fs::directory_iterator(folder)) names.push_back(file.path().filename().string());
  return names;
}

class Export : public ::testing::Test {
 protected:
  Exported run(const std::string& name, ExchangeFormat format, DType dtype = DType::kFloat32,
               const Tokenizer* tokenizer = nullptr) {
    return export_model(parameters_in(kExchangeConfig, values_), {format, dtype, tokenizer, folder_.path(name), "j1 step 60"});
  }
  std::vector<float> read_back(const std::string& name) {
    const auto model = HuggingFaceModel::open(folder_.path(name));
    EXPECT_TRUE(model) << model.error();
    if (!model) return {};
    EXPECT_EQ(model->config(), kExchangeConfig);
    std::vector<float> all(values_.size());
    for (size_t i = 0; i < model->table().entries.size(); ++i) {
      const Parameter& entry = model->table().entries[i];
      const auto read =
          model->read(i, std::span(all).subspan(static_cast<size_t>(entry.offset), static_cast<size_t>(entry.count)));
      EXPECT_TRUE(read) << read.error();
    }
    return all;
  }
  // The error, in which the export says what is wrong.
  static std::string refusal(const Exported& exported) { return exported ? "it was exported" : exported.error(); }

  TemporaryFolder folder_;
  std::vector<float> values_ = random_parameters(kExchangeConfig);
};

TEST_F(Export, SafetensorsComeBackAsTheSameParameters) {
  const auto files = run("hf", ExchangeFormat::kSafetensors);
  ASSERT_TRUE(files) << files.error();
  EXPECT_EQ(files->back().path, folder_.path("hf/model.safetensors"));
  EXPECT_EQ(files->back().bytes, static_cast<int64_t>(fs::file_size(folder_.path("hf/model.safetensors"))));
  EXPECT_EQ(read_back("hf"), values_);
}

TEST_F(Export, AnImportedModelIsExportedToTheSameBytes) {
  ASSERT_TRUE(run("first", ExchangeFormat::kSafetensors));
  values_ = read_back("first");
  ASSERT_TRUE(run("second", ExchangeFormat::kSafetensors));
  for (const char* name : {"model.safetensors", "config.json", "generation_config.json"})
    EXPECT_EQ(folder_.read(std::string("first/") + name), folder_.read(std::string("second/") + name));
}

TEST_F(Export, AHeadOfItsOwnIsInEveryFormat) {
  const Gpt2Config config = untied_exchange_config();
  const auto values = random_parameters(config);
  const auto bytes = make_byte_tokenizer();
  for (const auto& [format, name] : {std::pair(ExchangeFormat::kSafetensors, "hf"), std::pair(ExchangeFormat::kGguf, "gguf"),
                                     std::pair(ExchangeFormat::kNpz, "npz")})
    ASSERT_TRUE(export_model(parameters_in(config, values), {format, DType::kFloat32, bytes.get(), folder_.path(name), "m"}));
  const auto back = HuggingFaceModel::open(folder_.path("hf"));
  ASSERT_TRUE(back) << back.error();
  EXPECT_EQ(back->config(), config);
  std::vector<float> head(static_cast<size_t>(config.vocab_size * config.n_embd));
  ASSERT_TRUE(back->read(back->table().head, head));
  EXPECT_TRUE(std::equal(head.begin(), head.end(), values.end() - static_cast<std::ptrdiff_t>(head.size())));
  EXPECT_THAT(folder_.read("hf/model.safetensors").substr(0, 8192), HasSubstr("\"lm_head.weight\""));
  EXPECT_THAT(folder_.read("gguf/model.gguf"), HasSubstr("output.weight"));
  EXPECT_THAT(folder_.read("npz/model.npz"), HasSubstr("lm_head.weight.npy"));
  EXPECT_EQ(nlohmann::json::parse(folder_.read("npz/config.json"))["tied_head"], false);
}

TEST_F(Export, SixteenBitsAreRoundedToNearestEven) {
  values_[0] = std::nextafter(1.0F + 0x1p-8F, 2.0F);  // just above the middle of two bfloat16
  values_[1] = 1.0F + 0x1p-8F;                        // in the middle: to the even one
  values_[2] = 1.0F + 3 * 0x1p-11F;                   // in the middle of two float16
  values_[3] = -0.0F;
  std::vector<float> expected(values_.size());
  ASSERT_TRUE(run("bf16", ExchangeFormat::kSafetensors, DType::kBFloat16));
  std::ranges::transform(values_, expected.begin(), [](float value) { return float{kernels::BFloat16(value)}; });
  EXPECT_EQ(read_back("bf16"), expected);
  EXPECT_EQ(expected[0], 1.0F + 0x1p-7F);
  EXPECT_EQ(expected[1], 1.0F);
  ASSERT_TRUE(run("f16", ExchangeFormat::kSafetensors, DType::kFloat16));
  std::ranges::transform(values_, expected.begin(), [](float value) { return float{kernels::Float16(value)}; });
  EXPECT_EQ(read_back("f16"), expected);
  EXPECT_EQ(expected[2], 1.0F + 0x1p-9F);
}

TEST_F(Export, AValueThatATypeDoesNotReachIsRefusedByName) {
  const ParameterTable table(kExchangeConfig);
  values_[static_cast<size_t>(table["h.1.mlp.c_fc.bias"].offset)] = 70000;
  EXPECT_THAT(refusal(run("f16", ExchangeFormat::kSafetensors, DType::kFloat16)),
              HasSubstr("transformer.h.1.mlp.c_fc.bias: it has the value 70000, which float16 does not reach"));
  EXPECT_THAT(names_in(folder_.path("f16")), ElementsAre()) << "nothing of it is left";
  EXPECT_TRUE(run("bf16", ExchangeFormat::kSafetensors, DType::kBFloat16));
}

TEST_F(Export, AFolderWithOtherFilesIsRefusedAndItsOwnFilesAreReplaced) {
  const auto bytes = make_byte_tokenizer();
  ASSERT_TRUE(run("hf", ExchangeFormat::kSafetensors, DType::kFloat32, bytes.get()));
  const std::string before = folder_.read("hf/model.safetensors");
  values_[5] += 1;
  EXPECT_THAT(refusal(run("hf", ExchangeFormat::kSafetensors)), HasSubstr("has tokenizer.json, tokenizer_config.json, which"))
      << "a tokenizer of an earlier export would be taken for this one's";
  EXPECT_EQ(folder_.read("hf/model.safetensors"), before);
  folder_.write("hf/model.safetensors.tmp", "of an export that was killed");
  ASSERT_TRUE(run("hf", ExchangeFormat::kSafetensors, DType::kFloat32, bytes.get()));
  EXPECT_NE(folder_.read("hf/model.safetensors"), before);
  EXPECT_THAT(names_in(folder_.path("hf")), UnorderedElementsAre("config.json", "generation_config.json", "model.safetensors",
                                                                 "tokenizer.json", "tokenizer_config.json"));
  folder_.write("notes/thesis.txt", "mine");
  EXPECT_THAT(refusal(run("notes", ExchangeFormat::kNpz)), HasSubstr(folder_.path("notes") + ": has thesis.txt, which"));
}

TEST_F(Export, AFailedReadLeavesTheFolderAsItWas) {
  ASSERT_TRUE(run("npz", ExchangeFormat::kNpz));
  const std::string before = folder_.read("npz/model.npz");
  WeightSource broken = parameters_in(kExchangeConfig, values_);
  broken.read = [](auto) -> tl::expected<void, std::string> { return tl::unexpected(std::string("shard-0000: is missing")); };
  EXPECT_EQ(refusal(export_model(broken, {ExchangeFormat::kNpz, DType::kFloat32, nullptr, folder_.path("npz"), ""})),
            "shard-0000: is missing");
  EXPECT_EQ(folder_.read("npz/model.npz"), before);
  EXPECT_THAT(names_in(folder_.path("npz")), UnorderedElementsAre("config.json", "model.npz"));
}

TEST_F(Export, AFolderThatCannotBeWrittenIsNamed) {
  folder_.write("file", "");
  EXPECT_THAT(refusal(run("file", ExchangeFormat::kNpz)), HasSubstr(folder_.path("file") + ": cannot be used"));
  EXPECT_THAT(refusal(run("file/below", ExchangeFormat::kNpz)), HasSubstr(folder_.path("file/below") + ": cannot be used"));
}

TEST_F(Export, AFullDiskIsNamed) {
  fs::create_directories(folder_.path("disk"));
  if (::mount("tmpfs", folder_.path("disk").c_str(), "tmpfs", 0, "size=8k") != 0)
    GTEST_SKIP() << "a small disk takes a mount, which is not allowed here";
  const std::string said = refusal(run("disk", ExchangeFormat::kNpz));
  EXPECT_THAT(said, HasSubstr(folder_.path("disk/model.npz") + ": cannot be written: No space left on device"));
  EXPECT_THAT(names_in(folder_.path("disk")), ElementsAre());
  EXPECT_EQ(::umount(folder_.path("disk").c_str()), 0);
}

TEST_F(Export, RefusesWhatTheFormatsDoNotHave) {
  EXPECT_THAT(refusal(run("npz", ExchangeFormat::kNpz, DType::kBFloat16)), HasSubstr("numpy has no such type"));
  EXPECT_THAT(refusal(run("gguf", ExchangeFormat::kGguf)), HasSubstr("the tokenizer inside, and there is none"));
  const auto large = load_sentencepiece(train_sentencepiece({english_text()}, 400).value(), "the model").value();
  EXPECT_THAT(refusal(run("hf", ExchangeFormat::kSafetensors, DType::kFloat32, large.get())),
              HasSubstr("the tokenizer has 400 tokens and the model 261"));
  for (const char* name : {"npz", "gguf", "hf"}) EXPECT_FALSE(fs::exists(folder_.path(name)));
}

TEST_F(Export, HuggingFacesTokenizerFilesAreOfTheTokenizersKind) {
  const auto bytes = make_byte_tokenizer();
  ASSERT_TRUE(run("bytes", ExchangeFormat::kSafetensors, DType::kFloat32, bytes.get()));
  const auto described = nlohmann::json::parse(folder_.read("bytes/tokenizer.json"));
  EXPECT_EQ(described["model"]["vocab"].size(), 256U);
  EXPECT_EQ(described["model"]["vocab"]["A"], 65);
  EXPECT_EQ(described["model"]["vocab"]["\xC4\xA0"], 32) << "a blank is U+0120 in GPT-2's alphabet";
  EXPECT_EQ(described["model"]["vocab"]["\xC3\xBF"], 255);
  const auto pieces = load_sentencepiece(train_sentencepiece({"ab ab ab"}, 261).value(), "the model").value();
  ASSERT_TRUE(run("bpe", ExchangeFormat::kSafetensors, DType::kFloat32, pieces.get()));
  EXPECT_EQ(folder_.read("bpe/tokenizer.model"), pieces->file_bytes());
  BytePairVocabulary vocabulary;
  for (int byte = 0; byte < 256; ++byte) vocabulary.tokens.emplace_back(1, static_cast<char>(byte));
  vocabulary.tokens.insert(vocabulary.tokens.end(), {" a", kEndOfText});
  vocabulary.merges = {{' ', 'a', 256}};
  vocabulary.special_ids = {257};
  vocabulary.end_of_text = 257;
  const auto pairs = make_byte_pair_tokenizer(vocabulary);
  ASSERT_TRUE(run("gpt2", ExchangeFormat::kSafetensors, DType::kFloat32, pairs.get()));
  EXPECT_EQ(folder_.read("gpt2/tokenizer.json"), pairs->file_bytes());
  EXPECT_EQ(folder_.read("gpt2/merges.txt"), "#version: 0.2\n\xC4\xA0 a\n");
  EXPECT_EQ(nlohmann::json::parse(folder_.read("gpt2/vocab.json")).size(), 258U);
  const auto gguf = gguf_tokenizer(*pairs, 260).value();
  EXPECT_EQ(gguf.merges, std::vector<std::string>{"\xC4\xA0 a"});
  EXPECT_EQ(gguf.tokens[257], kEndOfText);
  EXPECT_EQ(gguf.tokens[259], "[PAD259]");
  const auto config = nlohmann::json::parse(folder_.read("bpe/config.json"));
  EXPECT_EQ(config["eos_token_id"], pieces->end_of_document());
}

}  // namespace
}  // namespace holdfast::model

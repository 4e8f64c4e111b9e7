// The commands ckpt ls, verify, show and export, and sample, on a real folder of checkpoints.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "model/data/tokenizer.h"
#include "model/parameter_table.h"
#include "storage/checkpoint.h"
#include "tests/ops/cli/cli_runner.h"
#include "tests/ops/cli/fake_service.h"

namespace holdfast::ops {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using Json = nlohmann::json;

const model::Gpt2Config kConfig{.n_layer = 1, .n_embd = 16, .n_head = 2, .vocab_size = 256, .block_size = 16};

// A folder with checkpoints of steps 20 and 40 of a very small model, and a tokenizer beside them.
class Checkpoints : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / ("holdfast-ckpt-" + std::to_string(getpid()));
    fs::remove_all(folder_);
    store_ = *storage::open_directory_store(folder_ / "ckpt");
    for (const int64_t step : {20, 40}) write(step);
  }
  void TearDown() override { fs::remove_all(folder_); }

  void write(int64_t step, const std::string& data = "/nowhere/train.bin") {
    const model::ParameterTable table(kConfig);
    std::vector<float> values(static_cast<size_t>(table.total));
    for (size_t i = 0; i < values.size(); ++i) values[i] = 0.01F * static_cast<float>(static_cast<int>(i * 7919 % 13) - 6);
    std::vector<storage::ConstTensor> tensors;
    for (const auto& entry : table.entries) {
      const auto floats = std::span(values).subspan(static_cast<size_t>(entry.offset), static_cast<size_t>(entry.count));
      tensors.push_back({entry.name, "float32", entry.shape, std::as_bytes(floats)});
    }
    storage::Manifest manifest;
    manifest.job = "j1";
    manifest.step = step;
    manifest.generation = 2;
    manifest.spec = {{"n_layer", 1},      {"n_embd", 16},     {"n_head", 2},
                     {"vocab_size", 256}, {"block_size", 16}, {"train_data_path", data}};
    const auto written = storage::write_checkpoint(*store_, manifest, tensors);
    ASSERT_TRUE(written) << written.error().message;
  }

  fs::path a_shard_of(int64_t step) const {
    for (const auto& file : fs::recursive_directory_iterator(folder_ / "ckpt" / storage::checkpoint_prefix(step))) {
      if (file.path().filename().string().starts_with("shard")) return file.path();
    }
    ADD_FAILURE() << "no shard of step " << step;
    return {};
  }
  void flip_a_bit(const fs::path& file) const {
    std::fstream stream(file, std::ios::in | std::ios::out | std::ios::binary);
    const auto middle = static_cast<std::streamoff>(fs::file_size(file) / 2);
    stream.seekg(middle);
    const int byte = stream.get();
    stream.seekp(middle);
    stream.put(static_cast<char>(byte ^ 4));
  }
  std::string tokenizer() {
    std::ofstream(folder_ / "text.txt") << std::string(4000, 'a') << "\n";
    const auto prepared = holdfast({"data", "prepare", folder_ / "text.txt", "--output", folder_ / "data", "--tokenizer",
                                    "bytes", "--validation_fraction", "0"});
    EXPECT_EQ(prepared.exit_code, 0) << prepared.err;
    return folder_ / "data";
  }

  fs::path folder_;
  std::unique_ptr<storage::ObjectStore> store_;
};

TEST_F(Checkpoints, AreListedVerifiedAndShown) {
  const std::string place = folder_ / "ckpt";
  EXPECT_THAT(holdfast({"ckpt", "ls", place}).out, HasSubstr("\n  20  "));
  EXPECT_EQ(Json::parse(holdfast({"ckpt", "ls", place, "--json"}).out)["checkpoints"].size(), 2U);
  const Said verified = holdfast({"ckpt", "verify", place});
  EXPECT_EQ(verified.exit_code, 0);
  EXPECT_THAT(verified.out, HasSubstr("step 20: ok"));
  EXPECT_THAT(verified.out, HasSubstr("step 40: ok"));
  EXPECT_THAT(verified.out, HasSubstr("in 1 shard, state hash"));
  EXPECT_THAT(holdfast({"ckpt", "show", place + "@20"}).out, HasSubstr("20 (generation 2)"));
  EXPECT_EQ(Json::parse(holdfast({"ckpt", "show", place, "--json"}).out)["step"], 40) << "the newest unless one is named";
  EXPECT_EQ(Json::parse(holdfast({"ckpt", "show", place + "/step-0000000020/", "--json"}).out)["step"], 20)
      << "its own folder names it, too";
}

TEST_F(Checkpoints, AnAlteredOneIsNamedAndExits1) {
  const fs::path shard = a_shard_of(40);
  flip_a_bit(shard);
  const std::string place = folder_ / "ckpt";
  const Said all = holdfast({"ckpt", "verify", place});
  EXPECT_EQ(all.exit_code, 1);
  EXPECT_THAT(all.out, HasSubstr("step 20: ok"));
  EXPECT_THAT(all.out, HasSubstr("step 40: BAD"));
  EXPECT_THAT(all.out, HasSubstr(shard.filename().string()));
  EXPECT_EQ(holdfast({"ckpt", "verify", place + "@20"}).exit_code, 0) << "the other one is good";
  const Json json = Json::parse(holdfast({"ckpt", "verify", place, "--json"}).out);
  EXPECT_EQ(json["checkpoints"][1]["ok"], false);
  const Said sampled = holdfast({"sample", "--from", place, "--tokenizer", tokenizer()});
  EXPECT_EQ(sampled.exit_code, 1);
  EXPECT_THAT(sampled.err, AllOf(HasSubstr(shard.filename().string()), HasSubstr("holdfast ckpt verify PLACE")));
}

TEST_F(Checkpoints, MissingOnesAreBadInput) {
  const Said wrong_step = holdfast({"ckpt", "verify", folder_.string() + "/ckpt@33"});
  EXPECT_EQ(wrong_step.exit_code, 2);
  EXPECT_THAT(wrong_step.err, HasSubstr("no checkpoint of step 33: it has 20, 40"));
  fs::create_directories(folder_ / "empty");
  EXPECT_EQ(holdfast({"ckpt", "ls", folder_ / "empty"}).exit_code, 2);
  EXPECT_FALSE(fs::exists(folder_ / "missing"));
  EXPECT_EQ(holdfast({"ckpt", "ls", folder_ / "missing"}).exit_code, 2);
  EXPECT_FALSE(fs::exists(folder_ / "missing")) << "looking makes nothing";
}

TEST_F(Checkpoints, OfAJobAreWhereItsSpecSays) {
  FakeService service;
  fs::rename(folder_ / "ckpt", folder_ / "j1");
  service.answer("GET /v1/jobs/j1", {{"id", "j1"}, {"spec", {{"checkpoint_store", folder_.string()}}}});
  service.answer("GET /v1/jobs/j2", {{"id", "j2"}, {"spec", {{"checkpoint_store", "/not/on/this/machine"}}}});
  for (const char* place : {"job:j1@20", "j1@20"}) {
    const Said said = holdfast({"ckpt", "verify", place, "--server", service.url()});
    EXPECT_EQ(said.exit_code, 0) << said.err;
    EXPECT_THAT(said.out, HasSubstr("step 20: ok"));
  }
  EXPECT_THAT(holdfast({"ckpt", "verify", "job:j1@latest", "--server", service.url()}).out, HasSubstr("step 40: ok"));
  EXPECT_THAT(holdfast({"ckpt", "verify", folder_.string() + "/j1@latest"}).out, HasSubstr("step 40: ok"));
  EXPECT_THAT(holdfast({"ckpt", "verify", "j1@newest", "--server", service.url()}).err, HasSubstr("such as j1@60, or @latest"));
  const Said elsewhere = holdfast({"ckpt", "verify", "job:j2", "--server", service.url()});
  EXPECT_EQ(elsewhere.exit_code, 2);
  EXPECT_THAT(elsewhere.err, HasSubstr("/not/on/this/machine"));
}

TEST_F(Checkpoints, WriteTextThatTheSeedDecides) {
  const std::string place = folder_ / "ckpt", dictionary = tokenizer();
  const auto sample = [&](const char* seed) {
    const Said said = holdfast({"sample", "--from", place + "@40", "--tokenizer", dictionary, "--prompt", "ab", "--tokens",
                                "12", "--threads", "1", "--seed", seed});
    EXPECT_EQ(said.exit_code, 0) << said.err;
    EXPECT_TRUE(said.out.starts_with("ab")) << said.out;
    return said.out;
  };
  EXPECT_EQ(sample("1"), sample("1"));
  EXPECT_NE(sample("1"), sample("2"));
  EXPECT_EQ(Json::parse(holdfast({"sample", "--checkpoint", place, "--tokenizer", dictionary, "--tokens", "3", "--threads", "1",
                                  "--json"})
                            .out)["step"],
            40);
}

TEST_F(Checkpoints, HaveALossOnATokenFile) {
  const std::string place = folder_ / "ckpt", data = folder_ / "val.bin";
  std::vector<uint16_t> tokens(200);
  for (size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<uint16_t>(i * i % 19);
  std::ofstream(data, std::ios::binary).write(reinterpret_cast<const char*>(tokens.data()), 400);
  const auto loss = [&](std::vector<std::string> more) {
    std::vector<std::string> arguments = {"eval", place, "--data", data, "--threads", "1", "--json"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const Said said = holdfast(arguments);
    EXPECT_EQ(said.exit_code, 0) << said.err;
    return Json::parse(said.out);
  };
  const Json all = loss({}), some = loss({"--windows", "2"}), half = loss({"--precision", "bfloat16"});
  EXPECT_EQ(all["step"], 40);
  EXPECT_NEAR(all["perplexity"].get<double>(), std::exp(all["loss"].get<double>()), 1e-9);
  EXPECT_LT(some["windows"], all["windows"]);
  EXPECT_NE(half["loss"], all["loss"]);
  EXPECT_NEAR(half["loss"].get<double>(), all["loss"].get<double>(), 0.02);
  const Said missing = holdfast({"eval", "--from", place, "--data", folder_ / "none.bin"});
  EXPECT_EQ(missing.exit_code, 2);
  EXPECT_THAT(missing.err, HasSubstr("none.bin"));
}

TEST_F(Checkpoints, SamplingWithoutATokenizerSaysSo) {
  const Said said = holdfast({"sample", "--from", folder_ / "ckpt"});
  EXPECT_EQ(said.exit_code, 2);
  EXPECT_THAT(said.err, HasSubstr("--tokenizer DIR"));
}

TEST_F(Checkpoints, AreExportedForOtherPrograms) {
  const std::string place = folder_ / "ckpt", output = folder_ / "gguf";
  const Said json =
      holdfast({"ckpt", "export", place, "--format", "gguf", "--tokenizer", tokenizer(), "--output", output, "--json"});
  ASSERT_EQ(json.exit_code, 0) << json.err;
  const Json said = Json::parse(json.out);
  EXPECT_EQ(said["step"], 40) << "the newest unless one is named";
  EXPECT_EQ(said["files"][0]["bytes"], fs::file_size(output + "/model.gguf"));
  EXPECT_EQ(said["tokenizer"], "bytes");
  const Said bare =
      holdfast({"ckpt", "export", place + "@20", "--format", "npz", "--dtype", "float16", "--output", folder_ / "npz"});
  EXPECT_EQ(bare.exit_code, 0) << bare.err;
  EXPECT_THAT(bare.out, HasSubstr("Step 20 of j1, npz in float16:\n"));
  EXPECT_THAT(bare.out, HasSubstr("Without a tokenizer: no tokenizer beside the training file"));
}

TEST_F(Checkpoints, ATokenizerIsLookedForBesideTheFirstFileOfAMixture) {
  const std::string place = folder_ / "ckpt";
  write(60, "wiki:1," + tokenizer() + "/train.bin:2,/nowhere/train.bin:3");
  write(80, "wiki:1,code:2");
  const auto exported = [&](const std::string& step) {
    return holdfast({"ckpt", "export", place + "@" + step, "--format", "npz", "--output", folder_ / ("npz" + step), "--json"});
  };
  EXPECT_EQ(Json::parse(exported("60").out)["tokenizer"], "bytes");
  EXPECT_EQ(Json::parse(exported("80").out)["tokenizer"], nullptr);
  EXPECT_THAT(holdfast({"ckpt", "export", place + "@80", "--format", "gguf", "--output", folder_ / "gguf"}).err,
              HasSubstr("no tokenizer is known, for the training data, wiki:1,code:2, is no file: give --tokenizer DIR"));
}

TEST_F(Checkpoints, AnAlteredOneIsNotExported) {
  const fs::path shard = a_shard_of(40);
  flip_a_bit(shard);
  const Said said = holdfast({"ckpt", "export", folder_ / "ckpt", "--format", "npz", "--output", folder_ / "npz"});
  EXPECT_EQ(said.exit_code, 1);
  EXPECT_THAT(said.err, HasSubstr(shard.filename().string()));
  EXPECT_TRUE(fs::is_empty(folder_ / "npz"));
}

TEST_F(Checkpoints, DataIsPreparedAndDescribed) {
  const std::string file = tokenizer() + "/train.bin";
  const Json info = Json::parse(holdfast({"data", "info", file, "--json"}).out);
  EXPECT_EQ(info["format"], "nanogpt");
  EXPECT_GE(info["tokens"].get<int>(), 4000);
  EXPECT_EQ(info["as_prepared"], true);
  EXPECT_THAT(holdfast({"data", "info", file}).out, HasSubstr(std::to_string(info["tokens"].get<int>())));
}

}  // namespace
}  // namespace holdfast::ops

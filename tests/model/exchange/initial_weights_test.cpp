// Weights to begin with: of Hugging Face's files and of Holdfast's checkpoints, the same values.
#include "model/exchange/initial_weights.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "model/exchange/export.h"
#include "storage/open_store.h"
#include "tests/model/exchange/parameters.h"
#include "tests/model/temporary_folder.h"

namespace holdfast::model {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class InitialWeightsTest : public ::testing::Test {
 protected:
  InitialWeightsTest() {
    EXPECT_TRUE(export_model(parameters_in(kExchangeConfig, values_), {.folder = folder_.path("hf"), .name = "m"}));
    write_checkpoint(60, kExchangeConfig);
  }
  void write_checkpoint(int64_t step, const Gpt2Config& config) {
    auto store = *storage::open_directory_store(folder_.path("ckpt"));
    storage::Manifest manifest;
    manifest.step = step;
    manifest.spec = {{"n_layer", config.n_layer},       {"n_embd", config.n_embd},
                     {"n_head", config.n_head},         {"vocab_size", config.vocab_size},
                     {"block_size", config.block_size}, {"tied_head", config.ties_head ? "on" : "off"}};
    std::vector<storage::ConstTensor> tensors;
    for (const Parameter& parameter : ParameterTable(config.ties_head ? kExchangeConfig : config).entries) {
      const auto floats =
          std::span(values_).subspan(static_cast<size_t>(parameter.offset), static_cast<size_t>(parameter.count));
      tensors.push_back({parameter.name, "float32", parameter.shape, std::as_bytes(floats)});
    }
    ASSERT_TRUE(storage::write_checkpoint(*store, manifest, tensors));
  }
  std::vector<float> all_of(const InitialWeights& weights, const Gpt2Config& config) {
    const ParameterTable table(config);
    std::vector<float> values(static_cast<size_t>(table.total));
    for (size_t i = 0; i < table.entries.size(); ++i) {
      const Parameter& parameter = table.entries[i];
      EXPECT_TRUE(weights.values->fill(
          i, std::span(values).subspan(static_cast<size_t>(parameter.offset), static_cast<size_t>(parameter.count))));
    }
    return values;
  }
  std::string refusal(const std::string& name, int64_t step, const Gpt2Config& wanted) {
    const auto opened = open_initial_weights(folder_.path(name), step, wanted);
    return opened ? "opened" : opened.error();
  }
  TemporaryFolder folder_;
  std::vector<float> values_ = random_parameters(kExchangeConfig);
};

TEST_F(InitialWeightsTest, AreTheSameWhereverTheyComeFrom) {
  std::string digest;
  for (const char* name : {"hf", "hf/model.safetensors", "ckpt"}) {
    const auto weights = open_initial_weights(folder_.path(name), -1, kExchangeConfig);
    ASSERT_TRUE(weights) << weights.error();
    EXPECT_EQ(all_of(*weights, kExchangeConfig), values_) << name;
    EXPECT_EQ(digest.empty() ? weights->digest : digest, weights->digest) << name;
    digest = weights->digest;
  }
}

// Counts what is read.
class CountedStore final : public storage::ForwardingStore {
 public:
  CountedStore(std::unique_ptr<storage::ObjectStore> store, int& gets) : ForwardingStore(std::move(store)), gets_(gets) {}
  storage::Result<storage::Bytes> get(const std::string& key) override {
    ++gets_;
    return ForwardingStore::get(key);
  }

 private:
  int& gets_;
};

TEST_F(InitialWeightsTest, InAStoreAreTheSameAndAShardIsNotReadForEachTensor) {
  int gets = 0;
  auto weights =
      open_initial_weights(std::make_unique<CountedStore>(*storage::open_directory_store(folder_.path("ckpt")), gets), -1,
                           "job:j1", kExchangeConfig);
  ASSERT_TRUE(weights) << weights.error();
  EXPECT_EQ(weights->digest, open_initial_weights(folder_.path("ckpt"), 60, kExchangeConfig)->digest);
  EXPECT_EQ(all_of(*weights, kExchangeConfig), values_);
  EXPECT_LT(gets, static_cast<int>(ParameterTable(kExchangeConfig).entries.size()));
  weights = open_initial_weights(*storage::open_directory_store(folder_.path("hf")), 60, "job:j1", kExchangeConfig);
  EXPECT_EQ(weights.error(), "job:j1: has no checkpoint of step 60.");
}

TEST_F(InitialWeightsTest, OfAModelWithMorePositionsTheFirstOnesAreTaken) {
  Gpt2Config shorter = kExchangeConfig;
  shorter.block_size = 4;
  for (const char* name : {"hf", "ckpt"}) {
    const auto weights = open_initial_weights(folder_.path(name), -1, shorter);
    ASSERT_TRUE(weights) << weights.error();
    const auto taken = all_of(*weights, shorter);
    const ParameterTable there_table(kExchangeConfig), here_table(shorter);
    const Parameter &there = there_table["wpe.weight"], &here = here_table["wpe.weight"];
    EXPECT_TRUE(
        std::equal(taken.begin() + here.offset, taken.begin() + here.offset + here.count, values_.begin() + there.offset))
        << name;
    EXPECT_NE(weights->digest, open_initial_weights(folder_.path(name), -1, kExchangeConfig)->digest);
  }
}

TEST_F(InitialWeightsTest, ThatChangedHaveAnotherDigest) {
  const std::string before = open_initial_weights(folder_.path("hf"), -1, kExchangeConfig)->digest;
  values_[7] += 1;
  std::filesystem::remove_all(folder_.path("hf"));
  ASSERT_TRUE(export_model(parameters_in(kExchangeConfig, values_), {.folder = folder_.path("hf"), .name = "m"}));
  EXPECT_NE(open_initial_weights(folder_.path("hf"), -1, kExchangeConfig)->digest, before);
}

TEST_F(InitialWeightsTest, OfAnotherModelAreRefusedWithTheFlagsThatFit) {
  Gpt2Config other = kExchangeConfig;
  other.n_layer = 3;
  other.block_size = 8;
  for (const char* name : {"hf", "ckpt"}) {
    EXPECT_THAT(refusal(name, -1, other),
                AllOf(HasSubstr(folder_.path(name) + ": this model has n_layer 2 and the job 3, block_size 7 and the job 8"),
                      HasSubstr("Submit with --n_layer 2 --block_size 7")));
  }
}

TEST_F(InitialWeightsTest, OfATiedModelBeginAHeadOfItsOwnWithTheEmbedding) {
  const Gpt2Config own = untied_exchange_config();
  for (const char* name : {"hf", "ckpt"}) {
    const auto weights = open_initial_weights(folder_.path(name), -1, own);
    ASSERT_TRUE(weights) << weights.error();
    auto expected = values_;
    expected.insert(expected.end(), values_.begin(), values_.begin() + own.vocab_size * own.n_embd);
    EXPECT_EQ(all_of(*weights, own), expected) << name;
    EXPECT_NE(weights->digest, open_initial_weights(folder_.path(name), -1, kExchangeConfig)->digest);
  }
}

TEST_F(InitialWeightsTest, WithAHeadOfItsOwnAreForSuchAJobAlone) {
  values_ = random_parameters(untied_exchange_config());
  write_checkpoint(80, untied_exchange_config());
  const auto weights = open_initial_weights(folder_.path("ckpt"), 80, untied_exchange_config());
  ASSERT_TRUE(weights) << weights.error();
  EXPECT_EQ(all_of(*weights, untied_exchange_config()), values_);
  EXPECT_EQ(config_of_weights(folder_.path("ckpt"), 80).value(), untied_exchange_config());
  EXPECT_THAT(
      refusal("ckpt", 80, kExchangeConfig),
      HasSubstr(
          "this model has a head of its own and the job one that is tied to the embedding. Submit with --tied_head off."));
  Gpt2Config deeper = kExchangeConfig;
  deeper.n_layer = 3;
  EXPECT_THAT(refusal("ckpt", 80, deeper), HasSubstr("Submit with --n_layer 2 --tied_head off."));
  EXPECT_TRUE(export_model(parameters_in(untied_exchange_config(), values_), {.folder = folder_.path("own"), .name = "m"}));
  EXPECT_THAT(refusal("own", -1, kExchangeConfig), HasSubstr("Submit with --tied_head off."));
}

TEST_F(InitialWeightsTest, ThatAreNotThereAreNamed) {
  EXPECT_THAT(refusal("absent", -1, kExchangeConfig),
              AllOf(HasSubstr("absent: no such file or folder"), HasSubstr("model.safetensors")));
  EXPECT_THAT(refusal("ckpt", 61, kExchangeConfig),
              AllOf(HasSubstr("no checkpoint of step 61"), HasSubstr("newest is that of step 60")));
  EXPECT_THAT(refusal("hf", 60, kExchangeConfig), HasSubstr("no checkpoint of step 60"));
  write_checkpoint(70, {});
  EXPECT_THAT(refusal("ckpt", -1, kExchangeConfig), HasSubstr("checkpoint of step 70 does not say of which model it is"));
}

TEST_F(InitialWeightsTest, ThatAreDamagedAreAnErrorWhenTheyAreRead) {
  std::string bytes = folder_.read("hf/model.safetensors");
  const auto weights = open_initial_weights(folder_.path("hf"), -1, kExchangeConfig);
  ASSERT_TRUE(weights);
  std::filesystem::resize_file(folder_.path("hf/model.safetensors"), bytes.size() / 2);
  std::vector<float> values(static_cast<size_t>(ParameterTable(kExchangeConfig).entries.back().count));
  bool failed = false;
  for (size_t i = 0; i < ParameterTable(kExchangeConfig).entries.size(); ++i) {
    values.resize(static_cast<size_t>(ParameterTable(kExchangeConfig).entries[i].count));
    failed = failed || !weights->values->fill(i, values);
  }
  EXPECT_TRUE(failed);
}

}  // namespace
}  // namespace holdfast::model

// Models of other programs: those that are GPT-2s of ours are read, all others are refused with what they are.
#include "model/exchange/hugging_face_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <nlohmann/json.hpp>
#include <random>

#include "model/exchange/export.h"
#include "model/exchange/hugging_face.h"
#include "model/exchange/safetensors.h"
#include "tests/model/exchange/parameters.h"
#include "tests/model/temporary_folder.h"

namespace holdfast::model {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using Json = nlohmann::json;

// Tensors by name, with their values as the file has them, in F32.
struct Plain {
  std::vector<int64_t> shape;
  std::vector<float> values;
};
using Tensors = std::map<std::string, Plain>;

std::string safetensors_of(const Tensors& tensors) {
  Json header = Json::object();
  std::string data;
  for (const auto& [name, tensor] : tensors) {
    const size_t begin = data.size();
    data.append(reinterpret_cast<const char*>(tensor.values.data()), tensor.values.size() * sizeof(float));
    header[name] = {{"dtype", "F32"}, {"shape", tensor.shape}, {"data_offsets", {begin, data.size()}}};
  }
  const std::string text = header.dump();
  const uint64_t length = text.size();
  return std::string(reinterpret_cast<const char*>(&length), sizeof length) + text + data;
}

class OtherModels : public ::testing::Test {
 protected:
  OtherModels() {
    const ParameterTable table(kExchangeConfig);
    for (size_t i = 0; i < table.entries.size(); ++i) {
      const Parameter& entry = table.entries[i];
      const FileTensor tensor = file_tensor(table, i, entry.name, kernels::DType::kFloat32, hugging_face_layout(entry));
      Plain& plain = tensors_[entry.name];
      plain.shape = tensor.shape;
      const auto sink = [&plain](std::span<const std::byte> bytes) {
        const auto* const floats = reinterpret_cast<const float*>(bytes.data());
        plain.values.insert(plain.values.end(), floats, floats + bytes.size() / sizeof(float));
      };
      EXPECT_TRUE(encode(
          tensor, std::span(values_).subspan(static_cast<size_t>(entry.offset), static_cast<size_t>(entry.count)), sink));
    }
    config_ = Json::parse(hugging_face_config(kExchangeConfig, kernels::DType::kFloat32, 1));
  }

  void write_config() const { folder_.write("config.json", config_.dump()); }
  std::string path() const {
    write_config();
    folder_.write("model.safetensors", safetensors_of(tensors_));
    return folder_.path();
  }
  static std::string refusal(const std::string& path) {
    const auto model = HuggingFaceModel::open(path);
    return model ? "it was opened" : model.error();
  }
  void expect_our_values(const std::string& path) const {
    const auto model = HuggingFaceModel::open(path);
    ASSERT_TRUE(model) << model.error();
    for (size_t i = 0; i < model->table().entries.size(); ++i) {
      const Parameter& entry = model->table().entries[i];
      std::vector<float> found(static_cast<size_t>(entry.count));
      ASSERT_TRUE(model->read(i, found));
      EXPECT_TRUE(std::equal(found.begin(), found.end(), values_.begin() + entry.offset)) << entry.name;
    }
  }
  // Two files and their index, as save_pretrained writes large models.
  std::string sharded(const std::function<void(Json& map)>& change = [](Json&) {}) const {
    write_config();
    Tensors first = tensors_, second;
    for (const char* name : {"wpe.weight", "h.1.mlp.c_fc.weight"}) second.insert(first.extract(name));
    folder_.write("model-00001-of-00002.safetensors", safetensors_of(first));
    folder_.write("model-00002-of-00002.safetensors", safetensors_of(second));
    Json map = Json::object();
    for (const auto& [name, tensor] : first) map[name] = "model-00001-of-00002.safetensors";
    for (const auto& [name, tensor] : second) map[name] = "model-00002-of-00002.safetensors";
    change(map);
    return folder_.write("model.safetensors.index.json", Json{{"metadata", {{"total_size", 1}}}, {"weight_map", map}}.dump());
  }

  TemporaryFolder folder_;
  std::vector<float> values_ = random_parameters(kExchangeConfig);
  Tensors tensors_;  // by their names without "transformer.", as OpenAI's first file has them
  Json config_;
};

TEST_F(OtherModels, AreReadWithoutThePrefixWithMasksAndWithTheTiedHeadWrittenOut) {
  tensors_["h.0.attn.bias"] = {{1, 1, 7, 7}, std::vector<float>(49, 1)};
  tensors_["lm_head.weight"] = tensors_["wte.weight"];
  expect_our_values(path());
  expect_our_values(folder_.path("model.safetensors"));
  tensors_["lm_head.weight"].values[3] += 1;
  EXPECT_THAT(refusal(path()),
              HasSubstr("lm_head.weight is not the same as wte.weight, to which config.json says that it is tied"));
}

TEST_F(OtherModels, AreReadFromShards) {
  expect_our_values(sharded());
  expect_our_values(folder_.path());
}

TEST_F(OtherModels, WithAnIndexThatIsWrongAreRefused) {
  EXPECT_THAT(refusal(sharded([](Json& map) { map["wpe.weight"] = "../elsewhere.safetensors"; })),
              HasSubstr("wpe.weight is in \"../elsewhere.safetensors\", expected the name of a file beside this one"));
  EXPECT_THAT(refusal(sharded([](Json& map) { map["wpe.weight"] = 7; })), HasSubstr("wpe.weight is in 7"));
  EXPECT_THAT(refusal(sharded([](Json& map) { map["wpe.weight"] = "model-00003.safetensors"; })),
              AllOf(HasSubstr("model-00002-of-00002.safetensors: its tensors are not those"), HasSubstr("wpe.weight")));
  EXPECT_THAT(refusal(sharded([](Json& map) { map["more.weight"] = "model-00001-of-00002.safetensors"; })),
              HasSubstr("more.weight"));
  EXPECT_THAT(refusal(sharded([](Json& map) { map = Json::array(); })), HasSubstr("has no weight_map"));
  const std::string index = folder_.write("model.safetensors.index.json", R"({"weight_map":{"a":"b","a":"c"}})");
  EXPECT_THAT(refusal(index), HasSubstr("has the key \"a\" twice"));
  folder_.write("model.safetensors.index.json", std::string(1000, '['));
  EXPECT_THAT(refusal(index), HasSubstr("nested more than 32 deep"));
  folder_.write("model.safetensors.index.json", R"({"weight_map":{"a":1e999}})");
  EXPECT_THAT(refusal(index), HasSubstr("model.safetensors.index.json: has a number that is larger than any"));
}

TEST_F(OtherModels, OfAnotherArchitectureAreRefusedByItsName) {
  config_["architectures"] = {"LlamaForCausalLM"};
  config_["model_type"] = "llama";
  EXPECT_EQ(refusal(path()), folder_.path("config.json") + ": is of a LlamaForCausalLM: expected a GPT2LMHeadModel");
  config_.erase("architectures");
  EXPECT_THAT(refusal(path()), HasSubstr("is of a llama"));
  config_ = Json::array();
  EXPECT_THAT(refusal(path()), HasSubstr("is not a JSON object"));
}

TEST_F(OtherModels, ThatComputeOtherwiseAreRefusedWithEachDifference) {
  config_["activation_function"] = "relu";
  config_["layer_norm_epsilon"] = 1e-6;
  config_["n_inner"] = 40;
  config_["scale_attn_by_inverse_layer_idx"] = true;
  EXPECT_THAT(refusal(path()), AllOf(HasSubstr("activation_function is \"relu\""), HasSubstr("layer_norm_epsilon is 1e-06"),
                                     HasSubstr("n_inner is 40"), HasSubstr("scale_attn_by_inverse_layer_idx is true")));
}

TEST_F(OtherModels, MayHaveAHeadOfTheirOwn) {
  config_["tie_word_embeddings"] = false;
  EXPECT_THAT(refusal(path()), HasSubstr("lacks lm_head.weight"));
  const auto whole = random_parameters(untied_exchange_config());
  const auto count = static_cast<size_t>(kExchangeConfig.vocab_size * kExchangeConfig.n_embd);
  values_.insert(values_.end(), whole.end() - static_cast<std::ptrdiff_t>(count), whole.end());
  tensors_["lm_head.weight"] = {{kExchangeConfig.vocab_size, kExchangeConfig.n_embd},
                                std::vector<float>(whole.end() - static_cast<std::ptrdiff_t>(count), whole.end())};
  expect_our_values(path());
  EXPECT_EQ(HuggingFaceModel::open(path())->config(), untied_exchange_config());
  config_["tie_word_embeddings"] = "no";
  EXPECT_THAT(refusal(path()), HasSubstr("tie_word_embeddings is \"no\", expected true or false"));
}

TEST_F(OtherModels, WithSizesThatCannotBeAreRefused) {
  for (const Json& value : {Json(), Json("2"), Json(-1), Json(2.5), Json(uint64_t{1} << 63), Json(1 << 30)}) {
    config_["n_layer"] = value;
    EXPECT_THAT(refusal(path()), HasSubstr("n_layer")) << value;
  }
  config_["n_layer"] = 2;
  config_["n_head"] = 5;
  EXPECT_THAT(refusal(path()), HasSubstr("n_head: 5 does not divide n_embd 12"));
}

TEST_F(OtherModels, WhoseTensorsAreNotThoseOfTheSizesAreRefusedByName) {
  Tensors all = tensors_;
  tensors_.erase("h.1.ln_2.bias");
  EXPECT_THAT(refusal(path()), HasSubstr("model.safetensors: lacks h.1.ln_2.bias"));
  tensors_ = all;
  tensors_["h.2.ln_1.bias"] = {{1}, {0}};
  EXPECT_THAT(refusal(path()), HasSubstr("has h.2.ln_1.bias, which a GPT-2 of these sizes has not"));
  tensors_ = all;
  std::swap(tensors_["h.0.mlp.c_fc.weight"].shape[0], tensors_["h.0.mlp.c_fc.weight"].shape[1]);
  EXPECT_THAT(refusal(path()), HasSubstr("h.0.mlp.c_fc.weight is (48, 12), config.json says (12, 48)"));
  tensors_ = all;
  tensors_["transformer.ln_f.bias"] = tensors_["ln_f.bias"];
  EXPECT_THAT(refusal(path()), HasSubstr("has ln_f.bias twice"));
  std::filesystem::remove(folder_.path("model.safetensors"));
  EXPECT_THAT(refusal(folder_.path()), HasSubstr("has neither model.safetensors nor model.safetensors.index.json"));
}

// No change of some bytes of the files makes the reader do anything but read all or refuse.
TEST_F(OtherModels, ThatWereChangedAnywhereAreReadOrRefused) {
  const std::string index = sharded();
  std::mt19937 random(11);
  int refused = 0;
  for (const char* name : {"config.json", "model.safetensors.index.json", "model-00002-of-00002.safetensors"}) {
    const std::string whole = folder_.read(name);
    for (int round = 0; round < 300; ++round) {
      std::string bytes = whole;
      const size_t first_bytes = std::min<size_t>(bytes.size(), 300);
      for (int change = 0; change <= round % 3; ++change) bytes[random() % first_bytes] = static_cast<char>(random() % 256);
      if (round % 7 == 0) bytes.resize(random() % bytes.size());
      folder_.write(name, bytes);
      const auto model = HuggingFaceModel::open(index);
      refused += model ? 0 : 1;
      for (size_t i = 0; model && i < model->table().entries.size(); ++i) {
        std::vector<float> values(static_cast<size_t>(model->table().entries[i].count));
        EXPECT_TRUE(model->read(i, values));
      }
    }
    folder_.write(name, whole);
  }
  EXPECT_GT(refused, 500);
  expect_our_values(index);
}

}  // namespace
}  // namespace holdfast::model

#include "model/exchange/hugging_face.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

namespace holdfast::model {

namespace {

using nlohmann::json;
using nlohmann::ordered_json;

constexpr double kEpsilon = 1e-5;

ordered_json id_or_null(int32_t id) {
  return id < 0 ? ordered_json(nullptr) : ordered_json(id);
}

std::string architecture_of(const json& config) {
  const auto names = config.find("architectures");
  if (names != config.end() && names->is_array() && !names->empty() && names->front().is_string())
    return names->front().get<std::string>();
  const auto type = config.find("model_type");
  return type != config.end() && type->is_string() ? type->get<std::string>() : "";
}

// A field that may be missing; then it is what transformers take.
bool differs(const json& config, const char* field, const json& expected, const json& otherwise) {
  const auto found = config.find(field);
  const json& value = found == config.end() ? otherwise : *found;
  return value != expected;
}

std::vector<std::string> ways_in_which_it_computes_otherwise(const json& config, const Gpt2Config& sizes) {
  std::vector<std::string> found;
  const auto activation = config.value("activation_function", json("gelu_new"));
  if (activation != "gelu_new" && activation != "gelu_pytorch_tanh")
    found.push_back(fmt::format("activation_function is {}, ours is gelu_new", activation.dump()));
  const auto epsilon = config.value("layer_norm_epsilon", json(kEpsilon));
  if (!epsilon.is_number() || std::abs(epsilon.get<double>() - kEpsilon) > 1e-9)
    found.push_back(fmt::format("layer_norm_epsilon is {}, ours is 1e-05", epsilon.dump()));
  if (const auto inner = config.value("n_inner", json()); !inner.is_null() && inner != 4 * sizes.n_embd)
    found.push_back(fmt::format("n_inner is {}, ours is 4 n_embd", inner.dump()));
  for (const auto& [field, ours] : {std::pair("scale_attn_weights", true), std::pair("scale_attn_by_inverse_layer_idx", false),
                                    std::pair("add_cross_attention", false)}) {
    if (differs(config, field, ours, ours))
      found.push_back(fmt::format("{} is {}, ours is {}", field, config[field].dump(), ours));
  }
  return found;
}

}  // namespace

Layout hugging_face_layout(const Parameter& parameter) {
  return parameter.shape.size() == 2 && parameter.name.starts_with("h.") ? Layout::kInOut : Layout::kOutIn;
}

std::string hugging_face_name(const Parameter& parameter) {
  return parameter.name == kHeadName ? parameter.name : kHuggingFacePrefix + parameter.name;
}

std::string hugging_face_config(const Gpt2Config& config, kernels::DType dtype, int32_t end_of_document) {
  const ordered_json whole = {{"architectures", {"GPT2LMHeadModel"}},
                              {"model_type", "gpt2"},
                              {"activation_function", "gelu_new"},
                              {"attn_pdrop", 0.0},
                              {"bos_token_id", id_or_null(end_of_document)},
                              {"embd_pdrop", 0.0},
                              {"eos_token_id", id_or_null(end_of_document)},
                              {"initializer_range", 0.02},
                              {"layer_norm_epsilon", kEpsilon},
                              {"n_ctx", config.block_size},
                              {"n_embd", config.n_embd},
                              {"n_head", config.n_head},
                              {"n_inner", nullptr},
                              {"n_layer", config.n_layer},
                              {"n_positions", config.block_size},
                              {"reorder_and_upcast_attn", false},
                              {"resid_pdrop", 0.0},
                              {"scale_attn_by_inverse_layer_idx", false},
                              {"scale_attn_weights", true},
                              {"tie_word_embeddings", config.ties_head},
                              {"torch_dtype", kernels::dtype_name(dtype)},
                              {"use_cache", true},
                              {"vocab_size", config.vocab_size}};
  return whole.dump(2) + "\n";
}

std::string hugging_face_generation_config(int32_t end_of_document) {
  const ordered_json whole = {{"_from_model_config", true},
                              {"bos_token_id", id_or_null(end_of_document)},
                              {"eos_token_id", id_or_null(end_of_document)}};
  return whole.dump(2) + "\n";
}

tl::expected<Gpt2Config, std::string> parse_hugging_face_config(const json& config) {
  if (!config.is_object()) return tl::unexpected(std::string("is not a JSON object"));
  const std::string architecture = architecture_of(config);
  const bool is_gpt2 = architecture.starts_with("GPT2") || architecture == "gpt2";
  if (!is_gpt2 || config.value("model_type", json("gpt2")) != "gpt2") {
    return tl::unexpected(fmt::format("is of a {}: expected a GPT2LMHeadModel",
                                      architecture.empty() ? "model that it does not name" : architecture));
  }
  Gpt2Config sizes;
  for (const auto& [field, place] :
       {std::pair("n_layer", &sizes.n_layer), std::pair("n_embd", &sizes.n_embd), std::pair("n_head", &sizes.n_head),
        std::pair("vocab_size", &sizes.vocab_size), std::pair("n_positions", &sizes.block_size)}) {
    const auto found = config.find(field);
    if (found == config.end() || !found->is_number_integer())
      return tl::unexpected(
          fmt::format("{} is {}, expected a whole number", field, found == config.end() ? "missing" : found->dump()));
    *place = found->is_number_unsigned() && found->get<uint64_t>() > INT64_MAX ? INT64_MAX : found->get<int64_t>();
  }
  const json ties = config.value("tie_word_embeddings", json(true));
  if (!ties.is_boolean()) return tl::unexpected(fmt::format("tie_word_embeddings is {}, expected true or false", ties.dump()));
  sizes.ties_head = ties.get<bool>();
  if (const auto problems = sizes.problems(); !problems.empty())
    return tl::unexpected(fmt::format("is of a model that cannot be built here: {}", fmt::join(problems, "; ")));
  if (const auto ways = ways_in_which_it_computes_otherwise(config, sizes); !ways.empty())
    return tl::unexpected(fmt::format("is of a GPT-2 that computes otherwise: {}", fmt::join(ways, "; ")));
  return sizes;
}

}  // namespace holdfast::model

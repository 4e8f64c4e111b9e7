// GPT-2 as Hugging Face's transformers have it: names, orientation of matrices, config.json.
//
// Their c_attn, c_proj and c_fc are Conv1D, whose weights are (in, out); all else is as in the parameter table. A head that is
// tied to wte has no tensor of its own. Refuses: a config.json of another architecture, or of a GPT-2 that computes
// otherwise than ours, in words that say how.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <tl/expected.hpp>

#include "kernels/ops.h"
#include "model/exchange/tensor_encoding.h"
#include "model/parameter_table.h"

namespace holdfast::model {

inline constexpr const char* kHuggingFacePrefix = "transformer.";  // of all but the head

std::string hugging_face_name(const Parameter& parameter);
Layout hugging_face_layout(const Parameter& parameter);

// `end_of_document`: the id that stands between documents; below 0: there is none.
std::string hugging_face_config(const Gpt2Config& config, kernels::DType dtype, int32_t end_of_document);
std::string hugging_face_generation_config(int32_t end_of_document);

// The errors do not name the file.
tl::expected<Gpt2Config, std::string> parse_hugging_face_config(const nlohmann::json& config);

}  // namespace holdfast::model

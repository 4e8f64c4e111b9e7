// A request for text as OpenAI's API has it (POST /v1/completions), read strictly.
//
// Refuses, by name: fields that are not known, values of another type or out of range, and what is known but not done here
// (suffix, logit_bias, best_of other than n). A refusal is an ApiError, in the form in which OpenAI's clients expect it. Null
// stands for a field that is not there. Pure. Thread: any.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <variant>
#include <vector>

#include "model/decode/choice.h"

namespace holdfast::rendezvous {

struct ApiError {
  int status = 400;
  std::string type = "invalid_request_error";
  std::string message;
  std::string param = {};  // the field; "": none
  std::string code = {};   // for programs; "": none
};
nlohmann::json json_of(const ApiError& error);

using PromptText = std::variant<std::string, std::vector<int32_t>>;

struct CompletionRequest {
  std::string model;
  std::vector<PromptText> prompts;
  int64_t n = 1;  // texts for each prompt
  bool stream = false, include_usage = false, echo = false;
  std::optional<int64_t> logprobs;  // alternatives of each token
  std::vector<std::string> stop;
  std::optional<uint64_t> seed;
  model::TextOptions options{.max_tokens = 16};  // but for its seed
};

inline constexpr size_t kPromptsMax = 64;
inline constexpr int64_t kTextsMax = 128, kLogprobsMax = 20;
inline constexpr size_t kStopsMax = 4, kStopBytesMax = 256;

// A JSON object from outside, nested no deeper than parse_json takes it. The error says what the text is instead.
tl::expected<nlohmann::json, std::string> read_json_object(std::string_view text);
tl::expected<CompletionRequest, ApiError> read_completion_request(std::string_view body);

}  // namespace holdfast::rendezvous

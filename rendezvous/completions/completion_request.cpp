#include "rendezvous/completions/completion_request.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "rendezvous/protocol/messages.h"
#include "rendezvous/text/nearest_name.h"

namespace holdfast::rendezvous {
namespace {

using Json = nlohmann::json;

constexpr const char* kNotDone[] = {"suffix",          "logit_bias", "tools",   "functions",   "messages",
                                    "response_format", "min_p",      "grammar", "guided_json", "guided_regex"};

ApiError wrong(const std::string& field, const std::string& why) {
  return {.message = field + ": " + why, .param = field};
}

std::string shown(const Json& value) {
  std::string text = json_text(value);
  if (text.size() > 60) text = text.substr(0, 57) + "...";
  return text;
}

// Reads one field after the other, and remembers the first that is wrong and all that were known.
class Fields {
 public:
  explicit Fields(const Json& json) : json_(json) {}

  const Json* find(const char* name) {
    known_.emplace_back(name);
    const auto found = json_.find(name);
    return found == json_.end() || found->is_null() ? nullptr : &*found;
  }
  void refuse(ApiError error) {
    if (!error_) error_ = std::move(error);
  }
  void whole(const char* name, int64_t least, int64_t most, int64_t& to) {
    const Json* const value = find(name);
    if (value == nullptr) return;
    const bool fits = value->is_number_integer() &&
                      (!value->is_number_unsigned() || value->get<uint64_t>() <= uint64_t{std::numeric_limits<int64_t>::max()});
    if (!fits || value->get<int64_t>() < least || value->get<int64_t>() > most) {
      return refuse(wrong(name, fmt::format("{}, expected a whole number from {} to {}", shown(*value), least, most)));
    }
    to = value->get<int64_t>();
  }
  void number(const char* name, double least, double most, double& to) {
    const Json* const value = find(name);
    if (value == nullptr) return;
    if (!value->is_number() || !(value->get<double>() >= least) || !(value->get<double>() <= most)) {
      return refuse(wrong(name, fmt::format("{}, expected a number from {} to {}", shown(*value), least, most)));
    }
    to = value->get<double>();
  }
  void flag(const char* name, bool& to) {
    const Json* const value = find(name);
    if (value == nullptr) return;
    if (!value->is_boolean()) return refuse(wrong(name, shown(*value) + ", expected true or false"));
    to = value->get<bool>();
  }
  // The first thing that is wrong; nothing if all is read and right.
  std::optional<ApiError> end() {
    for (const auto& [name, value] : json_.items()) {
      if (error_) break;
      if (std::ranges::find(known_, name) != known_.end() || value.is_null()) continue;
      if (std::ranges::find(kNotDone, name) != std::end(kNotDone)) {
        refuse(
            {.message = name + ": this server does not do that; leave it out", .param = name, .code = "unsupported_parameter"});
        continue;
      }
      const std::string nearest = nearest_name(name, known_);
      refuse({.message =
                  fmt::format("{}: no such field{}", name, nearest.empty() ? "" : fmt::format("; did you mean {}?", nearest)),
              .param = name,
              .code = "unknown_parameter"});
    }
    return error_;
  }

 private:
  const Json& json_;
  std::vector<std::string> known_;
  std::optional<ApiError> error_;
};

std::optional<std::vector<int32_t>> ids_of(const Json& list) {
  std::vector<int32_t> ids;
  for (const Json& id : list) {
    if (!id.is_number_integer() || id.get<int64_t>() < 0 || id.get<int64_t>() > std::numeric_limits<int32_t>::max()) return {};
    ids.push_back(static_cast<int32_t>(id.get<int64_t>()));
  }
  return ids;
}

void read_prompts(Fields& fields, CompletionRequest& request) {
  const Json* const value = fields.find("prompt");
  if (value == nullptr) return fields.refuse(wrong("prompt", "missing: expected text, or tokens"));
  const auto refuse = [&] {
    fields.refuse(wrong("prompt", fmt::format("{}, expected a text, a list of texts, a list of tokens or a list of those lists",
                                              shown(*value))));
  };
  if (value->is_string()) {
    request.prompts.emplace_back(value->get<std::string>());
  } else if (value->is_array() && !value->empty() && value->front().is_number()) {
    auto ids = ids_of(*value);
    if (!ids) return refuse();
    request.prompts.emplace_back(*std::move(ids));
  } else if (value->is_array() && !value->empty()) {
    if (value->size() > kPromptsMax)
      return fields.refuse(wrong("prompt", fmt::format("{} prompts, expected at most {}", value->size(), kPromptsMax)));
    for (const Json& prompt : *value) {
      auto ids = prompt.is_array() ? ids_of(prompt) : std::nullopt;
      if (!prompt.is_string() && !ids) return refuse();
      if (ids) {
        request.prompts.emplace_back(*std::move(ids));
      } else {
        request.prompts.emplace_back(prompt.get<std::string>());
      }
    }
  } else {
    refuse();
  }
}

void read_stop(Fields& fields, CompletionRequest& request) {
  const Json* const value = fields.find("stop");
  if (value == nullptr) return;
  const Json list = value->is_array() ? *value : Json::array({*value});
  const bool right = list.size() <= kStopsMax && std::ranges::all_of(list, [](const Json& text) {
                       return text.is_string() && !text.get_ref<const std::string&>().empty() &&
                              text.get_ref<const std::string&>().size() <= kStopBytesMax;
                     });
  if (!right) {
    return fields.refuse(wrong("stop", fmt::format("{}, expected a text or up to {} of them, each of 1 to {} bytes",
                                                   shown(*value), kStopsMax, kStopBytesMax)));
  }
  request.stop = list.get<std::vector<std::string>>();
}

void read_stream_options(Fields& fields, CompletionRequest& request) {
  const Json* const value = fields.find("stream_options");
  if (value == nullptr) return;
  if (!request.stream) return fields.refuse(wrong("stream_options", "only for requests with \"stream\": true"));
  if (!value->is_object()) return fields.refuse(wrong("stream_options", shown(*value) + ", expected an object"));
  Fields inner(*value);
  inner.flag("include_usage", request.include_usage);
  if (auto error = inner.end()) {
    error->message = "stream_options." + error->message;
    error->param = "stream_options." + error->param;
    fields.refuse(*std::move(error));
  }
}

}  // namespace

Json json_of(const ApiError& error) {
  const auto or_null = [](const std::string& text) { return text.empty() ? Json() : Json(text); };
  return {{"error",
           {{"message", error.message}, {"type", error.type}, {"param", or_null(error.param)}, {"code", or_null(error.code)}}}};
}

tl::expected<Json, std::string> read_json_object(std::string_view text) {
  ParsedJson parsed = parse_json(text);
  if (parsed.too_deep)
    return tl::unexpected(fmt::format("is nested deeper than {} levels, which nothing here needs", kJsonDepthMax));
  if (parsed.json.is_discarded()) return tl::unexpected<std::string>("is no JSON, expected a JSON object");
  if (!parsed.json.is_object()) return tl::unexpected(fmt::format("is {}, expected a JSON object", parsed.json.type_name()));
  return std::move(parsed.json);
}

tl::expected<CompletionRequest, ApiError> read_completion_request(std::string_view body) {
  const auto read = read_json_object(body);
  if (!read) return tl::unexpected(ApiError{.message = "the body " + read.error()});
  const Json& json = *read;
  CompletionRequest request;
  model::TextOptions& options = request.options;
  Fields fields(json);
  if (const Json* const name = fields.find("model"); name == nullptr) {
    fields.refuse(wrong("model", "missing: GET /v1/models names it"));
  } else if (!name->is_string()) {
    fields.refuse(wrong("model", shown(*name) + ", expected a text"));
  } else {
    request.model = name->get<std::string>();
  }
  read_prompts(fields, request);
  fields.whole("max_tokens", 0, 1 << 20, options.max_tokens);
  fields.number("temperature", 0, 100, options.temperature);
  fields.number("top_p", std::numeric_limits<double>::min(), 1, options.top_p);
  fields.whole("top_k", 0, std::numeric_limits<int32_t>::max(), options.top_k);
  fields.number("repetition_penalty", 0.01, 100, options.repetition_penalty);
  fields.number("presence_penalty", -2, 2, options.presence_penalty);
  fields.number("frequency_penalty", -2, 2, options.frequency_penalty);
  fields.whole("n", 1, kTextsMax, request.n);
  int64_t best_of = request.n;
  fields.whole("best_of", 1, kTextsMax, best_of);
  if (best_of != request.n)
    fields.refuse(wrong(
        "best_of", fmt::format("{}, expected n ({}): this server writes no texts that it does not show", best_of, request.n)));
  if (const Json* const logprobs = fields.find("logprobs"); logprobs != nullptr) {
    request.logprobs = 0;
    fields.whole("logprobs", 0, kLogprobsMax, *request.logprobs);
  }
  if (const Json* const seed = fields.find("seed"); seed != nullptr) {
    int64_t number = 0;
    fields.whole("seed", std::numeric_limits<int64_t>::min(), std::numeric_limits<int64_t>::max(), number);
    request.seed = static_cast<uint64_t>(number);
  }
  fields.flag("echo", request.echo);
  fields.flag("stream", request.stream);
  read_stream_options(fields, request);
  read_stop(fields, request);
  if (const Json* const user = fields.find("user"); user != nullptr && !user->is_string())
    fields.refuse(wrong("user", shown(*user) + ", expected a text"));
  if (static_cast<int64_t>(request.prompts.size()) * request.n > kTextsMax)
    fields.refuse(wrong("n", fmt::format("{} prompts with {} texts each, expected at most {} texts", request.prompts.size(),
                                         request.n, kTextsMax)));
  if (options.max_tokens == 0 && !(request.echo && request.logprobs))
    fields.refuse(
        wrong("max_tokens", "0, expected at least 1; or 0 with echo and logprobs, for the prompt's own log-probabilities"));
  if (auto error = fields.end()) return tl::unexpected(*std::move(error));
  return request;
}

}  // namespace holdfast::rendezvous

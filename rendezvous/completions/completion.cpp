#include "rendezvous/completions/completion.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace holdfast::rendezvous {
namespace {

using Json = nlohmann::json;

// A token of a vocabulary may have so many bytes.
constexpr size_t kTokenBytesMax = 128;

// A token has at least a byte; SentencePiece puts a space in front.
int64_t tokens_at_most(const PromptText& prompt) {
  if (const auto* text = std::get_if<std::string>(&prompt)) return static_cast<int64_t>(text->size()) + 2;
  return static_cast<int64_t>(std::get<std::vector<int32_t>>(prompt).size()) + 1;
}

std::string event_of(const Json& json) {
  return "data: " + json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n\n";
}

}  // namespace

std::optional<ApiError> excess_of(const CompletionRequest& request, int64_t longest) {
  for (const PromptText& prompt : request.prompts) {
    const auto* text = std::get_if<std::string>(&prompt);
    if (text == nullptr || text->size() <= static_cast<size_t>(longest) * kTokenBytesMax) continue;
    return ApiError{
        .message = fmt::format("prompt: {} bytes are more than the model's {} tokens can be", text->size(), longest),
        .param = "prompt",
        .code = "context_length_exceeded"};
  }
  if (!request.logprobs || request.stream) return {};
  int64_t tokens = 0;
  for (const PromptText& prompt : request.prompts) {
    const int64_t echoed = request.echo ? tokens_at_most(prompt) : 0;
    tokens += request.n * std::min(longest, echoed + request.options.max_tokens);
  }
  const int64_t chances = tokens * (1 + *request.logprobs);
  if (chances <= kChancesMax) return {};
  return ApiError{
      .message = fmt::format("logprobs: up to {} tokens with {} numbers each are {} numbers in one answer, expected at "
                             "most {}: ask for fewer at once, or a server for a stream",
                             tokens, 1 + *request.logprobs, chances, kChancesMax),
      .param = "logprobs"};
}

std::vector<std::vector<int32_t>> prompts_of(const CompletionRequest& request, const model::Tokenizer& tokenizer) {
  std::vector<std::vector<int32_t>> prompts;
  for (const PromptText& prompt : request.prompts) {
    if (const auto* text = std::get_if<std::string>(&prompt)) {
      prompts.push_back(tokenizer.encode(*text));
    } else {
      prompts.push_back(std::get<std::vector<int32_t>>(prompt));
    }
    if (prompts.back().empty() && tokenizer.end_of_document() >= 0) prompts.back() = {tokenizer.end_of_document()};
  }
  return prompts;
}

Completion::Completion(CompletionHead head, CompletionRequest request, std::vector<std::vector<int32_t>> prompts,
                       const model::Tokenizer& tokenizer)
    : head_(std::move(head)), request_(std::move(request)), prompts_(std::move(prompts)), tokenizer_(tokenizer) {
  for (const auto& prompt : prompts_) {
    prompt_tokens_ += static_cast<int64_t>(prompt.size());
    for (int64_t n = 0; n < request_.n; ++n) choices_.emplace_back(tokenizer_, request_.stop);
  }
}

model::Prompt Completion::order(size_t index) const {
  model::Prompt prompt{.tokens = prompt_of(index),
                       .options = request_.options,
                       .alternatives = request_.logprobs.value_or(0),
                       .prompt_losses = request_.echo && request_.logprobs};
  prompt.options.seed = head_.seed;
  prompt.options.choice = index % static_cast<size_t>(request_.n);
  prompt.options.vocabulary_limit = tokenizer_.vocab_size();
  if (tokenizer_.end_of_document() >= 0) prompt.options.stop_ids = {tokenizer_.end_of_document()};
  return prompt;
}

std::string Completion::echoed(size_t index) const {
  const size_t prompt = index / static_cast<size_t>(request_.n);
  if (const auto* text = std::get_if<std::string>(&request_.prompts[prompt])) return *text;
  return tokenizer_.decode(prompts_[prompt]);
}

// A token's text may be a part of a character; then it is shown as U+FFFD here, as OpenAI's servers show it as bytes. Of
// several tokens that are shown alike the likeliest, which comes first, counts.
Json Completion::logprobs_of(const Choice& choice) const {
  const auto text_of = [&](int32_t id) { return tokenizer_.decode({id}); };
  Json tokens = Json::array(), chances = Json::array(), top = Json::array(), offsets = Json::array();
  size_t offset = choice.offset;
  for (const model::WrittenToken& token : choice.unshown) {
    const bool has_chance = !choice.begins_after_nothing || !tokens.empty();
    Json others = Json::object();
    for (const model::TokenChance& other : token.alternatives) others.emplace(text_of(other.id), other.log_probability);
    tokens.push_back(text_of(token.token.id));
    chances.push_back(has_chance ? Json(token.token.log_probability) : Json());
    top.push_back(has_chance && *request_.logprobs > 0 ? std::move(others) : Json());
    offsets.push_back(offset);
    offset += tokenizer_.token_bytes(token.token.id).size();
  }
  return {{"tokens", std::move(tokens)},
          {"token_logprobs", std::move(chances)},
          {"top_logprobs", std::move(top)},
          {"text_offset", std::move(offsets)}};
}

size_t Completion::bytes_of(const std::vector<model::WrittenToken>& tokens) const {
  size_t bytes = 0;
  for (const model::WrittenToken& token : tokens) bytes += tokenizer_.token_bytes(token.token.id).size();
  return bytes;
}

bool Completion::add(size_t index, const std::vector<model::WrittenToken>& tokens, TextOutcome outcome, std::string& events) {
  Choice& choice = choices_[index];
  std::string now;
  if (!choice.has_begun) {
    choice.has_begun = true;
    const auto& prompt = prompt_of(index);
    if (request_.echo) {
      now = echoed(index);
      if (request_.logprobs) {
        choice.unshown.push_back({.token = {prompt.front(), 0}});
        choice.begins_after_nothing = true;
      }
    }
  }
  for (const model::WrittenToken& token : tokens) {
    if (!token.of_prompt) {
      ++written_tokens_;
      now += choice.stops.add(choice.characters.add(token.token.id));
    }
    if (request_.logprobs && (request_.echo || !token.of_prompt)) choice.unshown.push_back(token);
    if (choice.stops.has_stopped()) break;
  }
  const bool ends = outcome != TextOutcome::kGoesOn || choice.stops.has_stopped();
  if (ends) {
    if (!choice.stops.has_stopped()) now += choice.stops.add(choice.characters.finish());
    now += choice.stops.finish();
    const bool has_stopped = outcome == TextOutcome::kStop || choice.stops.has_stopped();
    choice.end = has_stopped                         ? "stop"
                 : outcome == TextOutcome::kTimedOut ? "timeout"
                 : outcome == TextOutcome::kLost     ? "lost"
                                                     : "length";
    ++ended_;
  }
  if (!request_.stream) {
    choice.text += now;
  } else if (ends || !now.empty()) {
    Json json = frame();
    json["choices"] = Json::array({shown(index, choice, now)});
    choice.offset += bytes_of(choice.unshown);
    choice.unshown.clear();
    choice.begins_after_nothing = false;
    if (request_.include_usage) json["usage"] = nullptr;
    events += event_of(json);
  }
  return !ends;
}

Json Completion::frame() const {
  return {{"id", head_.id},
          {"object", "text_completion"},
          {"created", head_.created_s},
          {"model", head_.model},
          {"system_fingerprint", head_.fingerprint},
          {"seed", static_cast<int64_t>(head_.seed)}};  // as a request gives it
}

Json Completion::shown(size_t index, const Choice& choice, const std::string& text) const {
  return {{"index", index},
          {"text", text},
          {"logprobs", request_.logprobs ? logprobs_of(choice) : Json()},
          {"finish_reason", choice.end.empty() ? Json() : Json(choice.end)}};
}

Json Completion::usage() const {
  return {{"prompt_tokens", prompt_tokens_},
          {"completion_tokens", written_tokens_},
          {"total_tokens", prompt_tokens_ + written_tokens_}};
}

std::string Completion::last_events() const {
  std::string events;
  if (request_.include_usage) {
    Json json = frame();
    json["choices"] = Json::array();
    json["usage"] = usage();
    events = event_of(json);
  }
  return events + "data: [DONE]\n\n";
}

Json Completion::answer() const {
  Json json = frame();
  json["choices"] = Json::array();
  for (size_t i = 0; i < choices_.size(); ++i) json["choices"].push_back(shown(i, choices_[i], choices_[i].text));
  json["usage"] = usage();
  return json;
}

}  // namespace holdfast::rendezvous

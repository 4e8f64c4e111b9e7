#include "rendezvous/completions/completion.h"

#include <fmt/format.h>

#include <utility>

namespace holdfast::rendezvous {
namespace {

using Json = nlohmann::json;

// A token of a vocabulary may have so many bytes.
constexpr size_t kTokenBytesMax = 128;

Json empty_logprobs() {
  return {{"tokens", Json::array()},
          {"token_logprobs", Json::array()},
          {"top_logprobs", Json::array()},
          {"text_offset", Json::array()}};
}

std::string event_of(const Json& json) {
  return "data: " + json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n\n";
}

}  // namespace

tl::expected<std::vector<std::vector<int32_t>>, ApiError> prompts_of(const CompletionRequest& request,
                                                                     const model::Tokenizer& tokenizer, int64_t longest) {
  std::vector<std::vector<int32_t>> prompts;
  for (const PromptText& prompt : request.prompts) {
    if (const auto* text = std::get_if<std::string>(&prompt)) {
      if (text->size() > static_cast<size_t>(longest) * kTokenBytesMax)
        return tl::unexpected(ApiError{
            .message = fmt::format("prompt: {} bytes are more than the model's {} tokens can be", text->size(), longest),
            .param = "prompt",
            .code = "context_length_exceeded"});
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
    for (int64_t n = 0; n < request_.n; ++n) {
      Choice& choice = choices_.emplace_back(tokenizer_, request_.stop);
      if (request_.logprobs) choice.logprobs = empty_logprobs();
    }
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

// A token's text may be a part of a character; then it is shown as U+FFFD here, as OpenAI's servers show it as bytes.
void Completion::note(Choice& choice, const model::WrittenToken& token) const {
  const auto text_of = [&](int32_t id) { return tokenizer_.decode({id}); };
  Json others = Json::object();
  for (const model::TokenChance& other : token.alternatives) others[text_of(other.id)] = other.log_probability;
  choice.logprobs["tokens"].push_back(text_of(token.token.id));
  choice.logprobs["token_logprobs"].push_back(token.token.log_probability);
  choice.logprobs["top_logprobs"].push_back(*request_.logprobs == 0 ? Json() : std::move(others));
  choice.logprobs["text_offset"].push_back(choice.offset);
  choice.offset += tokenizer_.token_bytes(token.token.id).size();
}

bool Completion::add(size_t index, const std::vector<model::WrittenToken>& tokens, TextOutcome outcome, std::string& events) {
  Choice& choice = choices_[index];
  std::string now;
  if (!choice.has_begun) {
    choice.has_begun = true;
    const auto& prompt = prompt_of(index);
    if (request_.echo) {
      now = echoed(index);
      if (request_.logprobs) {  // the first token comes after nothing
        choice.logprobs["tokens"].push_back(tokenizer_.decode({prompt.front()}));
        for (const char* name : {"token_logprobs", "top_logprobs"}) choice.logprobs[name].push_back(nullptr);
        choice.logprobs["text_offset"].push_back(0);
        choice.offset = tokenizer_.token_bytes(prompt.front()).size();
      }
    }
  }
  for (const model::WrittenToken& token : tokens) {
    if (!token.of_prompt) {
      ++written_tokens_;
      now += choice.stops.add(choice.characters.add(token.token.id));
    }
    if (request_.logprobs && (request_.echo || !token.of_prompt)) note(choice, token);
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
    if (request_.logprobs) choice.logprobs = empty_logprobs();
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
          {"logprobs", request_.logprobs ? choice.logprobs : Json()},
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

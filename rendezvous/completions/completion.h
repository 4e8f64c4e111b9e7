// The texts of one request, from the tokens that come to the answer as OpenAI's API has it: whole, or as server-sent events.
//
// Promises: pieces of a text are valid UTF-8, and what may belong to a stop string is held back until it is known. A stream's
// events end with "data: [DONE]". Usage counts the prompt's tokens once, however many texts it has. Thread: add() is called by
// one at a time.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "model/data/tokenizer.h"
#include "model/decode/text_engine.h"
#include "rendezvous/completions/completion_request.h"
#include "rendezvous/completions/stop_strings.h"
#include "rendezvous/completions/texts.h"

namespace holdfast::rendezvous {

// The facts that answers have in common.
struct CompletionHead {
  std::string id, model, fingerprint;  // the fingerprint: all that a text is a function of, but the request
  int64_t created_s = 0;
  uint64_t seed = 0;
};

// The reason why a model of at most `longest` tokens cannot do it: a prompt of more bytes than that many tokens can have, or an
// answer in one piece that may have more than kChancesMax log-probabilities, which are all kept until its end and written at
// once.
inline constexpr int64_t kChancesMax = 1 << 17;
std::optional<ApiError> excess_of(const CompletionRequest& request, int64_t longest);
// A request's prompts as tokens; one that is empty is the token between documents.
std::vector<std::vector<int32_t>> prompts_of(const CompletionRequest& request, const model::Tokenizer& tokenizer);

class Completion {
 public:
  // `prompts`: as tokens; `request.n` texts for each, whose index is prompt * n + choice. The tokenizer outlives it.
  Completion(CompletionHead head, CompletionRequest request, std::vector<std::vector<int32_t>> prompts,
             const model::Tokenizer& tokenizer);

  // More of a text. False: nothing more of it is wanted, for it has come to a stop string. For a stream `events` gets what is
  // to be sent now.
  bool add(size_t index, const std::vector<model::WrittenToken>& tokens, TextOutcome outcome, std::string& events);
  bool has_ended() const { return ended_ == choices_.size(); }
  std::string last_events() const;  // of a stream, when all have ended
  nlohmann::json answer() const;    // the whole, when all have ended

  int64_t prompt_tokens() const { return prompt_tokens_; }
  int64_t written_tokens() const { return written_tokens_; }
  size_t texts() const { return choices_.size(); }
  // The order for text `index`, as an engine takes it.
  model::Prompt order(size_t index) const;
  const CompletionRequest& request() const { return request_; }

 private:
  struct Choice {
    Choice(const model::Tokenizer& tokenizer, const std::vector<std::string>& stop) : characters(tokenizer), stops(stop) {}
    model::TextStream characters;
    StopStrings stops;
    std::string text, end;  // "stop", "length", "timeout", "lost" (no replica can go on with it); "": not yet
    bool has_begun = false;
    // Of a request for log-probabilities: the tokens that were not shown yet, as JSON too large to keep, and where their text
    // begins, in bytes.
    std::vector<model::WrittenToken> unshown;
    bool begins_after_nothing = false;  // the first of them has no chance
    size_t offset = 0;
  };
  const std::vector<int32_t>& prompt_of(size_t index) const { return prompts_[index / static_cast<size_t>(request_.n)]; }
  std::string echoed(size_t index) const;
  nlohmann::json logprobs_of(const Choice& choice) const;
  size_t bytes_of(const std::vector<model::WrittenToken>& tokens) const;
  nlohmann::json frame() const;
  nlohmann::json shown(size_t index, const Choice& choice, const std::string& text) const;
  nlohmann::json usage() const;

  CompletionHead head_;
  CompletionRequest request_;
  std::vector<std::vector<int32_t>> prompts_;
  const model::Tokenizer& tokenizer_;
  std::vector<Choice> choices_;
  size_t ended_ = 0;
  int64_t prompt_tokens_ = 0, written_tokens_ = 0;
};

}  // namespace holdfast::rendezvous

// The seam between requests for texts and whoever writes them: an engine of this process, or the replicas of a job.
//
// Promises: `on_progress` is called with the tokens that a text got since the last call, perhaps none, until it is told of an
// end or returns false: then the text is given up. A text that is not written within its patience ends as kTimedOut, and one
// that nobody can go on with as kLost. Texts that wait are bounded: more are refused as busy, with those of the same request.
// Thread: on_progress must not block.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "model/decode/text_engine.h"

namespace holdfast::rendezvous {

struct TextRefused {
  bool is_busy = false;  // the same may be asked again
  std::string why;
};

enum class TextOutcome : uint8_t { kGoesOn, kStop, kLength, kTimedOut, kLost };

struct TextOrder {
  using OnProgress = std::function<bool(const std::vector<model::WrittenToken>& tokens, TextOutcome outcome)>;
  model::Prompt prompt;
  OnProgress on_progress;
};

class Texts {
 public:
  virtual ~Texts() = default;
  // Takes all of them, or none and says why.
  virtual std::optional<TextRefused> submit(std::vector<TextOrder> orders, std::chrono::milliseconds patience) = 0;
  // Why so many texts would be refused now, by their number: before anything is done for them. Nothing: they would not.
  virtual std::optional<TextRefused> refusal_of(int64_t texts) const = 0;
};

}  // namespace holdfast::rendezvous

// The choice of a text's next token from its logits.
//
// Promise: a function of (options, the tokens so far, logits) and of nothing else; the same bits on every machine
// (portable_math.h). The draw for token n of choice c depends on (seed, c, n) alone. Thread: any.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace holdfast::model {

struct TextOptions {
  int64_t max_tokens = 100;  // new ones, at most
  double temperature = 1;    // 0: always the likeliest (the lowest id of equals)
  int64_t top_k = 0;         // draw from the k likeliest only; 0: from all
  double top_p = 1;          // draw from the likeliest that together have this probability only (Holtzman et al. 2020)
  uint64_t seed = 0;
  uint64_t choice = 0;  // of several texts for one prompt and seed
  int64_t drawn = 0;    // draws that came before this text's first
  double repetition_penalty =
      1;                         // of tokens that are there already: logits above 0 by it, others times it (Keskar et al. 2019)
  double presence_penalty = 0;   // taken from the logits of tokens that were written already
  double frequency_penalty = 0;  // the same, for each time
  std::vector<int32_t> stop_ids = {};  // each ends the text, and is not part of it
  int64_t vocabulary_limit = 0;        // only ids below: a model's vocabulary may be larger than its tokenizer's; 0: all

  // Each value that cannot be used, as "option: value, expected"; empty when all can.
  std::vector<std::string> problems() const;
};

// `context`: the tokens so far, of which the last `written` are the text's own, and the others its prompt's. `logits` (V).
int32_t choose_token(const TextOptions& options, std::span<const int32_t> context, int64_t written,
                     std::span<const float> logits);

// The ids of the k largest logits, largest first, the lower id first among equals; all when there are fewer.
std::vector<int32_t> likeliest(std::span<const float> logits, int64_t k);

}  // namespace holdfast::model

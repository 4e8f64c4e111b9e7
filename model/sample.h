// Text from a model, one token after another.
//
// Promises: the ids are a function of (parameters, context, options): the draw for token n of the text depends on the seed
// and n alone. There is no cache of keys and values: every token costs a forward pass over the context so far (at most
// block_size), which is fine for a few hundred tokens and not for serving.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "model/gpt2.h"

namespace holdfast::model {

struct SampleOptions {
  int64_t max_tokens = 100;
  double temperature = 1;  // 0: always the likeliest (the lowest id of equals)
  int64_t top_k = 0;       // draw from the k likeliest only; 0: from all
  uint64_t seed = 0;
  int32_t stop_id = -1;          // ends the text, and is not part of it; -1: none (Tokenizer::end_of_document)
  int64_t vocabulary_limit = 0;  // draw only ids below: a model's vocabulary may be larger than its tokenizer's; 0: all
};

// Called with each new id; false ends the text.
using TokenCallback = std::function<bool(int32_t id)>;

// The new ids (without the context). `model` has batch size 1. `context` has at least one id; of a longer one than
// block_size the last block_size count. Throws std::invalid_argument that names the option that cannot be used.
std::vector<int32_t> sample(Gpt2& model, std::span<const int32_t> context, const SampleOptions& options,
                            const TokenCallback& on_token = {});

// The draw itself, for `u` uniform in (0, 1): an index into `logits`.
int32_t draw_token(std::span<const float> logits, double temperature, int64_t top_k, double u);

}  // namespace holdfast::model

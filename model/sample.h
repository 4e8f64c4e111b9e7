// Text from a model, one token after another, beyond the model's last position too.
//
// Promise: the ids are a function of (parameters, the decoder's numerics and type, context, options). A token costs its own row
// (decode/text_engine.h), but once the model's block_size positions are full the last block_size tokens are computed again for
// each.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "model/decode/choice.h"
#include "model/decode/decoder.h"

namespace holdfast::model {

// Called with each new id; false ends the text.
using TokenCallback = std::function<bool(int32_t id)>;

// The new ids (without the context). `context` has at least one id; of a longer one than block_size the last block_size count.
// The decoder has pages for block_size tokens. Throws std::invalid_argument that names what cannot be used.
std::vector<int32_t> sample(Decoder& decoder, std::span<const int32_t> context, const TextOptions& options,
                            const TokenCallback& on_token = {});

}  // namespace holdfast::model

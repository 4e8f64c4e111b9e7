// How long a device takes for a microbatch, forward and backward, tried on made-up tokens.
#pragma once

#include <cstdint>

#include "kernels/ops.h"
#include "model/gpt2.h"
#include "model/parameter_table.h"
#include "model/recompute.h"

namespace holdfast::model {

struct MicrobatchTime {
  double seconds;  // the median pass; without optimizer, reduction and packing
  int64_t passes;
};

// Trains by `recipe` for about `limit_s` seconds, one pass at least; a first one that is not counted makes primitives and
// touches memory. Throws what the model's construction does where memory does not suffice.
MicrobatchTime time_microbatches(kernels::DeviceOps& ops, const Gpt2Config& config, int64_t batch_size, Recompute recompute,
                                 const Recipe& recipe, double limit_s);

}  // namespace holdfast::model

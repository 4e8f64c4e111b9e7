// A device that computes nothing and takes as long as one that does: for measuring what goes on between fast devices on a
// machine that has none.
//
// A pass takes `microbatch` from the encoder's forward to its backward, by sleeping until a moment and not for a time, so
// that the call's own time is not added. The time is shared by the operations of the products and of attention (2 a
// weight and row forward, 4 backward), as on a device at a constant rate: forward and head's forward a third, and in the
// backward pass the head first, then the layers from the last to the first. The forward's part is waited for at the head,
// before which nothing is to be seen of it.
// Emulated as free, as on a device where they take a millisecond: casts, LayerNorm, GELU, the packing of gradients, their
// sum of squares, AdamW. They leave memory as it is; so parameters stay as they were initialised, and the gradient buffer
// holds what the ring wrote. A rank brings small whole numbers to a reduction instead of its gradient, the same on
// every rank, written where they are not yet. Everything else is real: data, collectives, and the worker's own work
// with host memory around them (conversions to and from the wire's type, hashes, checkpoints).
// Refuses: nothing. Its `kind` is "emulated", so an exact job takes no other device beside it.
// Thread: one, as every DeviceOps.
#pragma once

#include <chrono>
#include <memory>

#include "kernels/ops.h"

namespace holdfast::bench {

std::unique_ptr<kernels::DeviceOps> make_emulated_ops(kernels::DType activations, std::chrono::duration<double> microbatch);

}  // namespace holdfast::bench

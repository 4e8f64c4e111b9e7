// The device's ops with a Span around each.
//
// Promises: the same results as the ops within. While nothing is recorded an op costs one more call and a relaxed load. While a
// profile is recorded on a GPU, whose work is queued, each op is waited for: so a span lasts as long as its op does, and steps
// take somewhat longer. Copies beside the queue are not waited for.
// Thread: as the ops within.
#pragma once

#include <memory>

#include "kernels/ops.h"

namespace holdfast::worker {

std::unique_ptr<kernels::DeviceOps> with_spans(std::unique_ptr<kernels::DeviceOps> ops);

}  // namespace holdfast::worker

// The device's ops with a Span around each.
//
// Promises: the same results as the ops within. While nothing is recorded an op costs one more call and a relaxed load. On a
// GPU, whose work is queued, a span of the calling thread shows how long queueing took; the op itself is a span of the same
// name and kind on the track "device", between two marks in the device's queue. No op is waited for: the marks are read when a
// step is over (bring_later_spans), with a wait for the device there. A span of the device ends with its work and begins when
// the device had done all before it, so launching counts to an op where the device has to wait for it. Ops that a device would
// do beside each other are done one after the other then, and not as a recorded graph. Copies beside the queue have none.
// Thread: as the ops within, which is the one that starts and stops recordings.
#pragma once

#include <memory>

#include "kernels/ops.h"

namespace holdfast::worker {

std::unique_ptr<kernels::DeviceOps> with_spans(std::unique_ptr<kernels::DeviceOps> ops);

}  // namespace holdfast::worker

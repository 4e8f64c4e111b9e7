// holdfast-worker --measure: how fast this machine's device is with a job's model, without service or data.
#pragma once

#include <string>
#include <tl/expected.hpp>

#include "worker/session/session.h"

namespace holdfast::worker {

// `fields` is a JSON object with fields of a job spec, such as {"model": "tiny", "batch_size": 16}. Returns one line of JSON:
// device, model (its name), memory_bytes (of the device), batch_size, microbatch_s (forward and backward; the median of some
// seconds) and passes. The error is a sentence for people.
tl::expected<std::string, std::string> measure_device(const std::string& fields, const kernels::OpsFactory& make_ops);

}  // namespace holdfast::worker

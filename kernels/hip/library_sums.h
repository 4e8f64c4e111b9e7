// The seam to the vendor's library of collectives: RCCL for AMD's GPUs, NCCL for NVIDIA's, by the same names. A build has
// library_sums.hip, or where CMake found no library (HOLDFAST_HIP_SUMS) no_library_sums.hip.
//
// Promises: those of DeviceSums (kernels/device_sums.h). Communicators are of the kind that does not block, from 2.14 on; an
// older library is refused where they are to be connected.
#pragma once

#include <functional>
#include <memory>

#include "kernels/device_sums.h"
#include "kernels/hip/runtime.h"

namespace holdfast::kernels::hip {

// Null: this build has no library. `work` is the op set's queue, and outlives them; `join` has what is queued from then on come
// after all that the op set has queued beside it.
std::unique_ptr<DeviceSums> make_library_sums(const Stream& work, std::function<void()> join);

}  // namespace holdfast::kernels::hip

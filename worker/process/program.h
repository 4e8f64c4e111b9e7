// A worker program from its command line to its end: a supervisor and, below it, the training process, the same program
// twice; with --devices several of these pairs below one process (fleet.h).
//
// Promises: the exit status of the process is 0 when it was drained or left, 1 when the training process could not go on, 2
// for bad flags, a refused token or another version. No exception leaves it.
// Thread: the main thread, before there are others.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <tl/expected.hpp>

#include "worker/devices/devices.h"
#include "worker/process/fleet.h"
#include "worker/process/options.h"

namespace holdfast::worker {

// Returns the device that the parsed options ask for, or why it cannot be had. Called in the training process, never in its
// supervisor, because a GPU's runtime takes memory. holdfast-worker passes choose_device (devices.h); a benchmark passes its
// own function.
using DeviceChoice = std::function<tl::expected<ChosenDevice, std::string>(const WorkerOptions&)>;

int run_worker_program(int argc, char** argv, const DeviceChoice& devices, const GpuCount& gpu_count);

}  // namespace holdfast::worker

// What a worker program does from its command line to its end: a supervisor and, below it, the training process; the same
// program twice.
//
// Promises: the exit status of the process: 0 drained or left, 1 the training process could not go on, 2 bad flags, a refused
// token or another version. Nothing is thrown. Thread: the main thread, before there are others.
#pragma once

#include <functional>
#include <string>
#include <tl/expected.hpp>

#include "worker/options.h"
#include "worker/session.h"

namespace holdfast::worker {

struct ChosenDevice {
  OpsFactory make_ops;
  std::string gpu;  // its --device name: what later lives of this worker ask for; "" where it is none
};
// The device that the parsed options ask for, or why it cannot be had. Asked in the training process, never in its supervisor:
// a GPU's runtime takes memory. holdfast-worker has choose_device (devices.h); a benchmark has one of its own.
using DeviceChoice = std::function<tl::expected<ChosenDevice, std::string>(const WorkerOptions&)>;

int run_worker_program(int argc, char** argv, const DeviceChoice& devices);

}  // namespace holdfast::worker

// Looks after the worker's GPU: its health becomes events of the job that the worker is in (worker/load/health_watch.h).
//
// Promises: the driver is asked every kEvery at most. News of a worker without a job stand in its log alone, as do all others,
// too. Where a GPU's driver tells nothing the log says so once. Thread: one at a time.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "kernels/ops.h"
#include "worker/link/outbox.h"
#include "worker/load/health_watch.h"

namespace holdfast::worker {

class DeviceWatch {
 public:
  static constexpr std::chrono::seconds kEvery{5};

  // `outbox` outlives it.
  DeviceWatch(const kernels::DeviceInfo& device, Outbox& outbox);
  // `job` is the worker's job now; "": none.
  void look(const std::string& job);

 private:
  Outbox& outbox_;
  std::unique_ptr<HealthReader> reader_;  // null: nothing tells
  HealthWatch watch_;
  HealthWatch::Clock::time_point next_;
};

}  // namespace holdfast::worker

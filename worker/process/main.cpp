// holdfast-worker: trains for a service on this machine's GPU or CPU (worker/process/program.h).
#include "worker/process/devices.h"
#include "worker/process/program.h"

int main(int argc, char** argv) {
#if defined(HOLDFAST_WITH_GPUS)
  static constexpr holdfast::worker::GpuOps kLinked{holdfast::kernels::hip_device_count, holdfast::kernels::hip_default_device,
                                                    holdfast::kernels::make_hip_ops};
  const holdfast::worker::GpuOps* const gpus = &kLinked;
#else
  const holdfast::worker::GpuOps* const gpus = nullptr;
#endif
  return holdfast::worker::run_worker_program(
      argc, argv,
      [gpus](const holdfast::worker::WorkerOptions& options) {
        return holdfast::worker::choose_device(options.device, options.threads, gpus, options.local_rank);
      },
      [gpus] { return gpus == nullptr ? 0 : gpus->count(); });
}

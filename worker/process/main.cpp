// holdfast-worker: trains for a service on this machine's GPU or CPU (worker/process/program.h).
#include "worker/process/devices.h"
#include "worker/process/program.h"

int main(int argc, char** argv) {
  using namespace holdfast::worker;  // NOLINT(google-build-using-namespace)
#if defined(HOLDFAST_WITH_GPUS)
  const GpuOps* const gpus = &kLinkedGpus;
#else
  const GpuOps* const gpus = nullptr;
#endif
  return run_worker_program(
      argc, argv,
      [gpus](const WorkerOptions& options) {
        const GpuLocks locks(GpuLocks::usual_folders(), options.name);
        return choose_device(options.device, options.threads, gpus, options.local_rank,
                             options.share_device ? nullptr : &locks);
      },
      [gpus] { return count_gpus(gpus); });
}

// holdfast-worker: trains for a service on this machine's GPU or CPU (worker/process/program.h).
#include "worker/devices/devices.h"
#include "worker/process/program.h"

int main(int argc, char** argv) {
  using namespace holdfast::worker;  // NOLINT(google-build-using-namespace)
  return run_worker_program(
      argc, argv,
      [](const WorkerOptions& options) {
        const GpuLocks locks(GpuLocks::usual_folders(), options.name);
        return choose_device(options.device, options.threads, kLinkedGpus, options.local_rank,
                             options.share_device ? nullptr : &locks);
      },
      [] { return count_gpus(kLinkedGpus); });
}

// holdfast-worker: trains for a service on this machine's CPU (worker/worker_program.h).
#include "worker/worker_program.h"

int main(int argc, char** argv) {
  return holdfast::worker::run_worker_program(argc, argv, holdfast::worker::ops_factory);
}

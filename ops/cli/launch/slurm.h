// Workers as a job of Slurm: the batch script of ops/deploy/slurm, given to sbatch, which lends its nodes to one job of the
// service.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ops/cli/command/command.h"

namespace holdfast::ops {

extern const char* const kBatchScript;  // ops/deploy/slurm/holdfast.sbatch

struct SlurmRequest {
  std::string job, server, token;  // of the service; the token is the workers'
  int64_t nodes = 1, workers_per_node = 1;
  std::vector<std::string> options;      // of sbatch, beside ours
  std::string worker_options, programs;  // flags of the workers; the folder of the programs, which the nodes see
};

// The command line, in which there is no secret; pure.
std::vector<std::string> sbatch_command(const SlurmRequest& request);
// Slurm's number of the job. Throws a Failure with what sbatch said.
std::string submit_to_slurm(const SlurmRequest& request);
// Takes the job out of Slurm's queue, if it waits there still.
void cancel_in_queue(const std::string& slurm_job);
// Whether this machine has sbatch.
bool has_slurm();

}  // namespace holdfast::ops

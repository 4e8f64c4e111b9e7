// One replica's part of a step, in a job that synchronises rarely (sync_every above 1): local AdamW steps from the parameters
// that all ranks share, and the distance that they led (DiLoCo: Douillard et al. 2023, algorithm 1).
//
// A step of such a job is one outer step. Each of its R replicas (R is the job's nominal nodes, however many workers there
// are) goes H inner steps on microbatches of its own. The mean over replicas of (parameters before - parameters after) takes
// the place of the gradient, and Nesterov momentum is applied to it (TrainState::apply_outer). A replica is dealt to ranks,
// packed into fixed point and summed just as a microbatch is in other jobs: so the bits do not depend on which rank computed
// which replica. Its inner moments begin at zero, because remembered moments would have to be handed over, or would be lost
// with a worker.
//
// Promises: `run` leaves the parameters as they were, also when it throws model::Interrupted; the same bits on every worker of
// the same numerics. Memory: four times the parameters beside the model's own (three with one microbatch in an inner step).
// Thread: one.
#pragma once

#include <cstdint>
#include <vector>

#include "model/data/training_data.h"
#include "model/device_buffer.h"
#include "model/gpt2.h"
#include "model/optimizer.h"

namespace holdfast::worker {

struct LocalStepsConfig {
  model::OptimizerConfig optimizer;  // its schedule counts inner steps
  int64_t steps = 1;                 // H
  int64_t microbatches = 1;          // of one replica in one inner step
};

class LocalSteps {
 public:
  // `ops`, `model` and `data`, the job's own, outlive it: replica u has the microbatches from u * H * microbatches on, in
  // order.
  LocalSteps(kernels::DeviceOps& ops, model::Gpt2& model, const model::TrainingData& data, const LocalStepsConfig& config);

  struct Outcome {
    double loss;         // mean over the replica's microbatches
    uint64_t digest;     // sum of microbatch_digest
    bool finite = true;  // losses and gradients; where false, do not use the gradient buffer
  };
  // The inner steps of one replica in the step that follows state `step`. Leaves (before - after) in the model's gradients.
  Outcome run(int64_t step, int64_t replica);

 private:
  void go(int64_t step, int64_t replica, Outcome& outcome);
  bool inner_step(int64_t step, int64_t first_microbatch, int64_t inner, Outcome& outcome);
  void restore();

  kernels::DeviceOps& ops_;
  model::Gpt2& model_;
  const model::TrainingData& data_;
  LocalStepsConfig config_;
  std::vector<model::Elements> chunks_;
  model::DeviceBuffer start_, m_, v_, sums_;
  std::vector<int32_t> inputs_, targets_;
};

}  // namespace holdfast::worker

// One microbatch forward and backward, and what a rank finds out about its own.
//
// Promises: magnitudes are those of the gradient itself, without the model's loss scale. Thread: one, the ops' own.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/ops.h"
#include "model/data/training_data.h"
#include "model/gpt2.h"
#include "worker/gradients/wire_type.h"

namespace holdfast::worker {

// `ops`, `model` and `data` outlive what is made from it.
struct GradientSetup {
  kernels::DeviceOps& ops;
  model::Gpt2& model;
  const model::TrainingData& data;
  WireType wire;
  int64_t dealt_units;  // of a step, over all ranks: microbatches, or replicas with local steps
};

// The result of computing one microbatch, whose gradients are then in the model, or one replica's local steps. A loss that is
// not finite stands for a gradient that is not, too.
struct Computed {
  double loss;  // mean
  uint64_t digest;
};

// The findings of one rank about its own microbatches of a step.
struct LocalStep {
  int64_t loss = 0;            // fixed point (loss_to_fixed), summed
  uint64_t tokens_digest = 0;  // sum of microbatch_digest
  bool finite = true;
  std::vector<float> maxima;  // per tensor; empty for the float reduction

  void add(const Computed& computed);
  void saw(size_t tensor, float largest);
};

class MicrobatchPass {
 public:
  explicit MicrobatchPass(const GradientSetup& setup);

  // With the two parts of the tied embedding's gradient apart. `on_gradients` may be null.
  Computed run(int64_t step, int64_t microbatch, const model::OnGradients& on_gradients);
  // The largest magnitude of the gradient in each tensor of a range, or in the part of it that is there; and of all rows that
  // stayed apart (Gpt2::token_gradient). Not finite if any element is not.
  std::vector<float> largest_of(model::Elements range) const;
  float largest_of_rows() const;

 private:
  kernels::DeviceOps& ops_;
  model::Gpt2& model_;
  const model::TrainingData& data_;
  std::vector<int32_t> inputs_, targets_;
};

}  // namespace holdfast::worker

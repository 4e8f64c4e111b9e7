#include "worker/gradients/local_steps.h"

#include <cmath>

namespace holdfast::worker {

LocalSteps::LocalSteps(kernels::DeviceOps& ops, model::Gpt2& model, const model::TrainingData& data,
                       const LocalStepsConfig& config)
    : ops_(ops),
      model_(model),
      data_(data),
      config_(config),
      chunks_(model.table().chunks()),
      start_(ops, static_cast<size_t>(model.table().total) * sizeof(float)),
      m_(ops, start_.bytes()),
      v_(ops, start_.bytes()),
      inputs_(static_cast<size_t>(data.shape().tokens())),
      targets_(inputs_.size()) {
  if (config.microbatches > 1) sums_ = model::DeviceBuffer(ops, start_.bytes());
}

LocalSteps::Outcome LocalSteps::run(int64_t step, int64_t replica) {
  const int64_t total = model_.table().total;
  ops_.float_accumulate(start_.data<float>(), model_.parameters(), total, true);
  ops_.zero(m_.data<void>(), m_.bytes());
  ops_.zero(v_.data<void>(), v_.bytes());
  Outcome outcome{};
  try {
    go(step, replica, outcome);
  } catch (...) {
    restore();
    throw;
  }
  ops_.subtract(model_.gradients(), start_.data<float>(), model_.parameters(), total);
  restore();
  return outcome;
}

void LocalSteps::go(int64_t step, int64_t replica, Outcome& outcome) {
  const int64_t all = config_.steps * config_.microbatches;
  for (int64_t inner = 0; inner < config_.steps; ++inner) {
    outcome.finite = inner_step(step, replica * all + inner * config_.microbatches, inner, outcome) && outcome.finite;
  }
  outcome.loss /= static_cast<double>(all);
}

// After a number that is not finite nothing more is computed, for the step will be refused; its data counts as consumed.
bool LocalSteps::inner_step(int64_t step, int64_t first_microbatch, int64_t inner, Outcome& outcome) {
  const int64_t total = model_.table().total;
  const bool several = config_.microbatches > 1;
  for (int64_t i = 0; i < config_.microbatches; ++i) {
    const int64_t microbatch = first_microbatch + i;
    data_.fill(step, microbatch, inputs_, targets_);
    outcome.digest += model::microbatch_digest(step, microbatch, inputs_, targets_);
    if (!outcome.finite) continue;
    outcome.loss += model_.train_microbatch(inputs_, targets_, nullptr, model::TiedGradient::kTogether, {step, microbatch});
    if (several) ops_.float_accumulate(sums_.data<float>(), model_.gradients(), total, i == 0);
  }
  if (!outcome.finite || !std::isfinite(outcome.loss)) return false;
  const model::OwnedElements all{{0, total}};
  const float* const gradient = several ? sums_.data<float>() : model_.gradients();
  const double scale = 1.0 / static_cast<double>(config_.microbatches);
  const double norm = model::norm_of(ops_, chunks_, gradient) * scale;
  if (!std::isfinite(norm)) return false;
  model::apply_adamw(ops_, model_.table(), config_.optimizer,
                     {.parameters = model_.parameters(),
                      .parameters_layout = model::Layout::kTable,
                      .m = m_.data<float>(),
                      .v = v_.data<float>(),
                      .moments_layout = model::Layout::kTable,
                      .gradient = {gradient},
                      .owned = {&all, 1}},
                     step * config_.steps + inner, inner, norm, scale);
  model_.parameters_changed();
  return true;
}

void LocalSteps::restore() {
  ops_.float_accumulate(model_.parameters(), start_.data<float>(), model_.table().total, true);
  model_.parameters_changed();
}

}  // namespace holdfast::worker

#include "worker/gradient_accumulator.h"

#include <algorithm>
#include <cmath>

#include "worker/exponent_rule.h"
#include "worker/step_exchange.h"

namespace holdfast::worker {

GradientAccumulator::GradientAccumulator(kernels::DeviceOps& ops, model::Gpt2& model, const model::DataOrder& order,
                                         std::span<const uint16_t> tokens, bool exact)
    : ops_(ops),
      model_(model),
      order_(order),
      tokens_(tokens),
      exact_(exact),
      limit_(fixed_limit(order.microbatches)),
      sums_(ops, static_cast<size_t>(model.table().total) * sizeof(int32_t)),
      inputs_(static_cast<size_t>(order.batch_size * order.block_size)),
      targets_(inputs_.size()) {}

double GradientAccumulator::compute(int64_t step, int64_t microbatch) {
  gradient_of_ = -1;
  order_.fill(tokens_, step, microbatch, inputs_, targets_);
  const double loss = model_.train_microbatch(inputs_, targets_);
  gradient_of_ = microbatch;
  return loss;
}

void GradientAccumulator::pack_microbatch(std::span<const int32_t> exponents) {
  const auto& entries = model_.table().entries;
  for (size_t t = 0; t < entries.size(); ++t) {
    const float* gradient = model_.gradients() + entries[t].offset;
    const float largest = ops_.abs_max(gradient, entries[t].count);
    found_.maxima[t] = std::max(found_.maxima[t], largest);
    found_.finite &= std::isfinite(largest);
    if (!overflows(largest, exponents[t], limit_)) {
      ops_.fixed_accumulate(integer_sums().data() + entries[t].offset, gradient, entries[t].count, exponents[t],
                            microbatches_.empty());
    }
  }
}

std::vector<int64_t> GradientAccumulator::kept(int64_t step, std::span<const int32_t> exponents) const {
  if (step != step_ || !std::ranges::equal(exponents, exponents_)) return {};
  auto microbatches = microbatches_;
  std::ranges::sort(microbatches);
  return microbatches;
}

void GradientAccumulator::forget() {
  step_ = -1;
}

const LocalStep& GradientAccumulator::accumulate(int64_t step, std::span<const int64_t> microbatches,
                                                 std::span<const int32_t> exponents) {
  if (step != step_ || !std::ranges::equal(exponents, exponents_)) {
    step_ = step;
    exponents_.assign(exponents.begin(), exponents.end());
    microbatches_.clear();
    found_ = {};
    if (exact_) found_.maxima.assign(model_.table().entries.size(), 0.0F);
  }
  for (const int64_t microbatch : microbatches) {
    const double loss = compute(step, microbatch);
    found_.finite &= std::isfinite(loss);
    if (std::isfinite(loss)) found_.loss += loss_to_fixed(loss);
    found_.data_digest += model::microbatch_digest(step, microbatch, inputs_, targets_);
    if (exact_) {
      pack_microbatch(exponents);
    } else {
      ops_.float_accumulate(float_sums().data(), model_.gradients(), model_.table().total, microbatches_.empty());
    }
    microbatches_.push_back(microbatch);
  }
  if (microbatches_.empty()) ops_.zero(sums_.data<void>(), sums_.bytes());
  return found_;
}

std::vector<int32_t> GradientAccumulator::repack_exponents(std::span<const int32_t> exponents,
                                                           std::span<const float> maxima) const {
  std::vector<int32_t> chosen(exponents.begin(), exponents.end());
  for (size_t t = 0; t < maxima.size(); ++t) {
    if (overflows(maxima[t], exponents[t], limit_)) {
      chosen[t] = choose_exponent(maxima[t], 0, limit_, exponent_of_zeros(exponents[t]));
    }
  }
  if (std::equal(chosen.begin(), chosen.end(), exponents.begin())) chosen.clear();
  return chosen;
}

void GradientAccumulator::repack(std::span<const int32_t> after) {
  const auto& entries = model_.table().entries;
  const bool still_there = microbatches_.size() == 1 && gradient_of_ == microbatches_.front();
  for (size_t i = 0; i < microbatches_.size(); ++i) {
    if (!still_there) compute(step_, microbatches_[i]);
    for (size_t t = 0; t < entries.size(); ++t) {
      if (exponents_[t] == after[t]) continue;
      ops_.fixed_accumulate(integer_sums().data() + entries[t].offset, model_.gradients() + entries[t].offset, entries[t].count,
                            after[t], i == 0);
    }
  }
  exponents_.assign(after.begin(), after.end());
}

std::vector<int32_t> GradientAccumulator::next_exponents(std::span<const int32_t> exponents,
                                                         std::span<const float> maxima) const {
  std::vector<int32_t> next(exponents.begin(), exponents.end());
  for (size_t t = 0; t < maxima.size(); ++t) {
    next[t] = choose_exponent(maxima[t], kHeadroomBits, limit_, exponent_of_zeros(exponents[t]));
  }
  return next;
}

std::span<int32_t> GradientAccumulator::integer_sums() {
  return {sums_.data<int32_t>(), static_cast<size_t>(model_.table().total)};
}

std::span<float> GradientAccumulator::float_sums() {
  return {sums_.data<float>(), static_cast<size_t>(model_.table().total)};
}

std::span<int32_t> GradientAccumulator::integer_result() {
  gradient_of_ = -1;
  return {reinterpret_cast<int32_t*>(model_.gradients()), static_cast<size_t>(model_.table().total)};
}

std::span<float> GradientAccumulator::float_result() {
  gradient_of_ = -1;
  return {model_.gradients(), static_cast<size_t>(model_.table().total)};
}

void GradientAccumulator::unpack(std::span<const int32_t> exponents, bool alone) {
  gradient_of_ = -1;
  const auto microbatches = static_cast<double>(order_.microbatches);
  if (!exact_) {
    float* mean = model_.gradients();
    const auto scale = static_cast<float>(1.0 / microbatches);
    for (const float sum : alone ? float_sums() : float_result()) *mean++ = sum * scale;
    return;
  }
  const int32_t* sums = alone ? integer_sums().data() : integer_result().data();
  const auto& entries = model_.table().entries;
  for (size_t t = 0; t < entries.size(); ++t) {
    const auto scale = static_cast<float>(std::ldexp(1.0, -exponents[t]) / microbatches);
    ops_.fixed_unpack(model_.gradients() + entries[t].offset, sums + entries[t].offset, entries[t].count, scale);
  }
}

}  // namespace holdfast::worker

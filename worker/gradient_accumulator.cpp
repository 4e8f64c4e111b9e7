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
  order_.fill(tokens_, step, microbatch, inputs_, targets_);
  return model_.train_microbatch(inputs_, targets_);
}

void GradientAccumulator::pack_microbatch(std::span<const int32_t> exponents, bool first, LocalStep& local) {
  const auto& entries = model_.table().entries;
  for (size_t t = 0; t < entries.size(); ++t) {
    const float* gradient = model_.gradients() + entries[t].offset;
    const float largest = ops_.abs_max(gradient, entries[t].count);
    local.maxima[t] = std::max(local.maxima[t], largest);
    local.finite &= std::isfinite(largest);
    if (!overflows(largest, exponents[t], limit_)) {
      ops_.fixed_accumulate(integer_sums().data() + entries[t].offset, gradient, entries[t].count, exponents[t], first);
    }
  }
}

LocalStep GradientAccumulator::accumulate(int64_t step, rendezvous::Share share, std::span<const int32_t> exponents) {
  LocalStep local;
  if (exact_) local.maxima.assign(model_.table().entries.size(), 0.0F);
  if (share.first == share.last) ops_.zero(sums_.data<void>(), sums_.bytes());
  for (int64_t microbatch = share.first; microbatch < share.last; ++microbatch) {
    const double loss = compute(step, microbatch);
    local.finite &= std::isfinite(loss);
    if (std::isfinite(loss)) local.loss += loss_to_fixed(loss);
    local.data_digest += model::microbatch_digest(step, microbatch, inputs_, targets_);
    const bool first = microbatch == share.first;
    if (exact_) {
      pack_microbatch(exponents, first, local);
    } else {
      ops_.float_accumulate(float_sums().data(), model_.gradients(), model_.table().total, first);
    }
  }
  return local;
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

void GradientAccumulator::repack(int64_t step, rendezvous::Share share, std::span<const int32_t> before,
                                 std::span<const int32_t> after) {
  const auto& entries = model_.table().entries;
  for (int64_t microbatch = share.first; microbatch < share.last; ++microbatch) {
    if (share.last - share.first > 1) compute(step, microbatch);
    for (size_t t = 0; t < entries.size(); ++t) {
      if (before[t] == after[t]) continue;
      ops_.fixed_accumulate(integer_sums().data() + entries[t].offset, model_.gradients() + entries[t].offset, entries[t].count,
                            after[t], microbatch == share.first);
    }
  }
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

void GradientAccumulator::unpack(std::span<const int32_t> exponents) {
  const auto microbatches = static_cast<double>(order_.microbatches);
  if (!exact_) {
    float* mean = model_.gradients();
    const auto scale = static_cast<float>(1.0 / microbatches);
    for (const float sum : float_sums()) *mean++ = sum * scale;
    return;
  }
  const auto& entries = model_.table().entries;
  for (size_t t = 0; t < entries.size(); ++t) {
    const auto scale = static_cast<float>(std::ldexp(1.0, -exponents[t]) / microbatches);
    ops_.fixed_unpack(model_.gradients() + entries[t].offset, integer_sums().data() + entries[t].offset, entries[t].count,
                      scale);
  }
}

}  // namespace holdfast::worker

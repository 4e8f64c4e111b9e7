#include "worker/gradients/accumulator.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace holdfast::worker {
GradientAccumulator::GradientAccumulator(const GradientSetup& setup, std::unique_ptr<LocalSteps> local_steps)
    : ops_(setup.ops),
      model_(setup.model),
      wire_(setup.wire),
      pass_(setup),
      local_steps_(std::move(local_steps)),
      rule_(setup.dealt_units, integer_bits(wire_)),
      sums_(ops_, model_, wire_, setup.data.shape().tokens()),
      mean_(ops_, sums_, setup.dealt_units) {}

Computed GradientAccumulator::compute(int64_t step, int64_t microbatch, const model::OnGradients& on_gradients) {
  gradient_of_ = -1;
  mean_.give_buffer_to_model();
  Computed computed{};
  if (local_steps_) {
    const auto outcome = local_steps_->run(step, microbatch);
    computed = {outcome.finite ? outcome.loss : std::numeric_limits<double>::quiet_NaN(), outcome.digest};
  } else {
    computed = pass_.run(step, microbatch, on_gradients);
  }
  gradient_of_ = microbatch;
  return computed;
}

void GradientAccumulator::pack(Elements range) {
  if (exact()) return pack_exactly(range);
  ops_.float_accumulate(sums_.values.data<float>() + range.first, model_.gradients() + range.first, range.count,
                        microbatches_.empty());
}

void GradientAccumulator::pack_exactly(Elements range) {
  const auto& entries = model_.table().entries;
  const auto begin = std::ranges::lower_bound(entries, range.first, {}, &model::Parameter::offset);
  const auto end = std::ranges::lower_bound(begin, entries.end(), range.first + range.count, {}, &model::Parameter::offset);
  const auto known = [&](auto entry) { return largest_.begin() + (entry - entries.begin()); };
  const auto maxima = largest_.empty() ? pass_.largest_of(range) : std::vector<float>(known(begin), known(end));
  for (auto entry = begin; entry != end; ++entry) {
    const auto t = static_cast<size_t>(entry - entries.begin());
    const float largest = maxima[static_cast<size_t>(entry - begin)];
    if (t == kTiedTensor) head_largest_ = largest;
    found_.saw(t, largest);
    if (!rule_.overflows(largest, exponents_[t])) {
      pack(t, exponents_[t], microbatches_.empty());
    } else if (microbatches_.empty()) {
      // These sums are not used, but they may be sent before all ranks know that, and other ranks' sums may be added to them:
      // zeros keep every sum within its integers.
      ops_.zero(sums_.values.data<std::byte>() + sums_.bytes_of(entry->offset), sums_.bytes_of(entry->count));
    }
  }
}

// The two parts of the tied embedding's gradient overflow when they do not fit together. The head's part alone, which is in
// the sums by then, may have fitted: the rows are then left out, as every tensor that overflows is.
void GradientAccumulator::pack_rows() {
  const model::TokenGradient gradient = model_.token_gradient();
  if (!exact()) return sums_.rows.pack(gradient, 0);
  const float largest = sum_at_least(head_largest_, pass_.largest_of_rows());
  found_.saw(kTiedTensor, largest);
  if (!rule_.overflows(largest, exponents_[kTiedTensor])) sums_.rows.pack(gradient, exponents_[kTiedTensor] - loss_scale_log2_);
}

void GradientAccumulator::move_rows_to_sums() {
  sums_.move_rows_to_values();
}

void GradientAccumulator::pack(size_t t, int32_t exponent, bool first) {
  const auto& entry = model_.table().entries[t];
  const float* gradient = model_.gradients() + entry.offset;
  exponent -= loss_scale_log2_;
  if (wire_ == WireType::kInt16) {
    ops_.fixed_accumulate(sums_.values.data<int16_t>() + entry.offset, gradient, entry.count, exponent, first);
  } else {
    ops_.fixed_accumulate(sums_.values.data<int32_t>() + entry.offset, gradient, entry.count, exponent, first);
  }
}

void GradientAccumulator::add(int64_t microbatch, const OnPacked& on_packed) {
  move_rows_to_sums();  // the rows of the microbatch before
  const auto& order = model_.gradient_order();
  size_t passed = 0;
  const auto next_range = [&] {
    if (passed == ranges_packed_) {
      passed < order.size() ? pack(order[passed]) : pack_rows();
      begun_ = microbatch;
      ++ranges_packed_;
    }
    if (on_packed) on_packed(passed);
    ++passed;
  };
  model::OnGradients on_gradients;
  if (on_packed) on_gradients = [&](int64_t, int64_t) { next_range(); };
  const Computed computed = compute(step_, microbatch, on_gradients);
  // Nobody was told of the ranges while the backward pass went on: a GPU is waited for once for all of them.
  if (exact() && passed == 0) largest_ = pass_.largest_of({0, model_.table().total});
  while (passed <= order.size()) next_range();
  largest_.clear();
  found_.add(computed);
  microbatches_.push_back(microbatch);
  begun_ = -1;
  ranges_packed_ = 0;
}

std::vector<int64_t> GradientAccumulator::kept(int64_t step, std::span<const int32_t> exponents) const {
  if (step != step_ || !std::ranges::equal(exponents, exponents_)) return {};
  auto microbatches = microbatches_;
  if (begun_ >= 0) microbatches.push_back(begun_);
  std::ranges::sort(microbatches);
  return microbatches;
}

void GradientAccumulator::forget() {
  step_ = -1;
  mean_.forget();
}

void GradientAccumulator::begin_step(int64_t step, std::span<const int32_t> exponents) {
  step_ = step;
  exponents_.assign(exponents.begin(), exponents.end());
  loss_scale_log2_ = model_.loss_scale_log2();
  mean_.begin_step(loss_scale_log2_);
  microbatches_.clear();
  begun_ = -1;
  ranges_packed_ = 0;
  sums_.rows.clear();
  found_ = {};
  if (exact()) found_.maxima.assign(model_.table().entries.size(), 0.0F);
}

const LocalStep& GradientAccumulator::accumulate(int64_t step, std::span<const int64_t> microbatches,
                                                 std::span<const int32_t> exponents, const OnPacked& on_packed) {
  if (step != step_ || !std::ranges::equal(exponents, exponents_)) begin_step(step, exponents);
  mean_.expect_fetches(on_packed != nullptr);
  mean_.await_puts();
  std::vector<int64_t> missing;
  if (begun_ >= 0) missing.push_back(begun_);
  missing.insert(missing.end(), microbatches.begin(), microbatches.end());
  for (size_t i = 0; i < missing.size(); ++i) add(missing[i], i + 1 == missing.size() ? on_packed : OnPacked());
  if (microbatches_.empty()) ops_.zero(sums_.values.data<void>(), sums_.values.bytes());
  if (missing.empty() && on_packed) {
    for (size_t range = 0; range <= model_.gradient_order().size(); ++range) on_packed(range);
  }
  return found_;
}

void GradientAccumulator::repack(std::span<const int32_t> after) {
  mean_.expect_fetches(false);
  const bool still_there = microbatches_.size() == 1 && gradient_of_ == microbatches_.front() && !mean_.overwrote_buffer();
  for (size_t i = 0; i < microbatches_.size(); ++i) {
    if (!still_there) compute(step_, microbatches_[i]);
    for (size_t t = 0; t < after.size(); ++t) {
      if (exponents_[t] != after[t]) pack(t, after[t], i == 0);
    }
    if (exponents_[kTiedTensor] != after[kTiedTensor]) {
      sums_.rows.pack(model_.token_gradient(), after[kTiedTensor] - loss_scale_log2_);
      move_rows_to_sums();
    }
  }
  exponents_.assign(after.begin(), after.end());
}

std::vector<int32_t> GradientAccumulator::first_exponents(int64_t step) {
  compute(step, 0);
  std::vector<float> maxima = pass_.largest_of({0, model_.table().total});
  maxima[kTiedTensor] = sum_at_least(maxima[kTiedTensor], pass_.largest_of_rows());
  return rule_.for_first_step(maxima);
}

}  // namespace holdfast::worker

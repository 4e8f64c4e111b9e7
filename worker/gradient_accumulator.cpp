#include "worker/gradient_accumulator.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <string>

#include "model/train_state.h"
#include "worker/exponent_rule.h"
#include "worker/narrow_sums.h"
#include "worker/step_exchange.h"

namespace holdfast::worker {
namespace {

constexpr size_t kTied = 0;  // wte is the table's first tensor

Elements tied_elements(const model::ParameterTable& table) {
  return {table.entries[kTied].offset, table.entries[kTied].count};
}

// Nothing is sent while the pass goes on, but the two parts of the tied embedding's gradient are to stay apart.
void keep_parts_apart(int64_t, int64_t) {}

}  // namespace

GradientAccumulator::GradientAccumulator(kernels::DeviceOps& ops, model::Gpt2& model, const model::DataOrder& order,
                                         std::span<const uint16_t> tokens, WireType wire,
                                         std::unique_ptr<LocalSteps> local_steps, int64_t replicas)
    : ops_(ops),
      model_(model),
      order_(order),
      tokens_(tokens),
      wire_(wire),
      local_steps_(std::move(local_steps)),
      microbatches_of_step_(local_steps_ ? replicas : order.microbatches),
      limit_(fixed_limit(microbatches_of_step_, integer_bits(wire))),
      sums_(ops, static_cast<size_t>(model.table().total) * sum_bytes(wire)),
      sums_on_host_(ops, sums_.data<void>(), sums_.bytes()),
      gradient_on_host_(ops, model.gradients(), static_cast<size_t>(model.table().total) * sizeof(float)),
      rows_(ops, wire, order.batch_size * order.block_size, model.config().vocab_size, model.config().n_embd),
      inputs_(static_cast<size_t>(order.batch_size * order.block_size)),
      targets_(inputs_.size()) {
  if (wire == WireType::kInt8) quantized_.emplace(static_cast<size_t>(model.table().total));
}

GradientAccumulator::Computed GradientAccumulator::compute(int64_t step, int64_t microbatch,
                                                           const model::OnGradients& on_gradients) {
  gradient_of_ = -1;
  if (overwritten_) gradient_on_host_.await_puts();  // of a reduction that may have failed
  overwritten_ = false;
  Computed computed{};
  if (local_steps_) {
    const auto outcome = local_steps_->run(step, microbatch);
    computed = {outcome.finite ? outcome.loss : std::numeric_limits<double>::quiet_NaN(), outcome.digest};
  } else {
    order_.fill(tokens_, step, microbatch, inputs_, targets_);
    computed = {model_.train_microbatch(inputs_, targets_, on_gradients),
                model::microbatch_digest(step, microbatch, inputs_, targets_)};
  }
  gradient_of_ = microbatch;
  return computed;
}

void GradientAccumulator::pack(Elements range) {
  if (exact()) return pack_exactly(range);
  ops_.float_accumulate(sums_.data<float>() + range.first, model_.gradients() + range.first, range.count,
                        microbatches_.empty());
}

std::vector<float> GradientAccumulator::largest_of(std::span<const model::Parameter> tensors) const {
  std::vector<kernels::DeviceOps::Floats> of;
  for (const auto& tensor : tensors) of.push_back({model_.gradients() + tensor.offset, tensor.count});
  std::vector<float> largest(of.size());
  ops_.abs_maxima(largest.data(), of.data(), of.size());
  for (float& x : largest) x = std::ldexp(x, -model_.loss_scale_log2());
  return largest;
}

float GradientAccumulator::largest_of_rows(const model::TokenGradient& gradient) const {
  const int64_t count = static_cast<int64_t>(gradient.ids.size()) * model_.config().n_embd;
  return std::ldexp(ops_.abs_max(gradient.rows, count), -model_.loss_scale_log2());
}

void GradientAccumulator::pack_exactly(Elements range) {
  const auto& entries = model_.table().entries;
  const auto begin = std::ranges::lower_bound(entries, range.first, {}, &model::Parameter::offset);
  const auto end = std::ranges::lower_bound(begin, entries.end(), range.first + range.count, {}, &model::Parameter::offset);
  const std::vector<float> maxima = largest_of({begin, end});
  for (auto entry = begin; entry != end; ++entry) {
    const auto t = static_cast<size_t>(entry - entries.begin());
    const float largest = maxima[static_cast<size_t>(entry - begin)];
    if (t == kTied) head_largest_ = largest;
    found_.maxima[t] = std::max(found_.maxima[t], largest);
    found_.finite &= std::isfinite(largest);
    if (!overflows(largest, exponents_[t], limit_)) {
      pack(t, exponents_[t], microbatches_.empty());
    } else if (microbatches_.empty()) {
      // Nothing uses these sums, but they may be sent before that is known, and others may be added to them: in bounds.
      ops_.zero(sums_.data<std::byte>() + static_cast<size_t>(entry->offset) * sum_bytes(wire_),
                static_cast<size_t>(entry->count) * sum_bytes(wire_));
    }
  }
}

// A microbatch whose two parts of the tied embedding's gradient do not fit together overflows, though the head's alone, which
// is in the sums by then, may fit: the rest is left out, as of any tensor that overflows.
void GradientAccumulator::pack_rows() {
  const model::TokenGradient gradient = model_.token_gradient();
  if (!exact()) return rows_.pack(gradient, 0);
  const float largest = sum_at_least(head_largest_, largest_of_rows(gradient));
  found_.maxima[kTied] = std::max(found_.maxima[kTied], largest);
  found_.finite &= std::isfinite(largest);
  if (!overflows(largest, exponents_[kTied], limit_)) rows_.pack(gradient, exponents_[kTied] - loss_scale_log2_);
}

void GradientAccumulator::move_rows_to_sums() {
  rows_.move_to(sums_.data<std::byte>() + static_cast<size_t>(model_.table().entries[kTied].offset) * sum_bytes(wire_));
}

void GradientAccumulator::pack(size_t t, int32_t exponent, bool first) {
  const auto& entry = model_.table().entries[t];
  const float* gradient = model_.gradients() + entry.offset;
  exponent -= loss_scale_log2_;
  if (wire_ == WireType::kInt16) {
    ops_.fixed_accumulate(sums_.data<int16_t>() + entry.offset, gradient, entry.count, exponent, first);
  } else {
    ops_.fixed_accumulate(sums_.data<int32_t>() + entry.offset, gradient, entry.count, exponent, first);
  }
}

void GradientAccumulator::tell(size_t range, const OnPacked& on_packed) {
  if (!on_packed) return;
  const auto& order = model_.gradient_order();
  if (range < order.size()) {
    sums_on_host_.begin_fetch(static_cast<size_t>(order[range].first) * sum_bytes(wire_),
                              static_cast<size_t>(order[range].count) * sum_bytes(wire_));
  } else {
    rows_.begin_fetch();
  }
  on_packed(range);
}

void GradientAccumulator::add(int64_t microbatch, const OnPacked& on_packed) {
  move_rows_to_sums();  // of the one before
  const auto& order = model_.gradient_order();
  size_t passed = 0;
  const auto next_range = [&] {
    if (passed == ranges_packed_) {
      passed < order.size() ? pack(order[passed]) : pack_rows();
      begun_ = microbatch;
      ++ranges_packed_;
    }
    tell(passed, on_packed);
    ++passed;
  };
  const auto [loss, digest] = compute(step_, microbatch, [&](int64_t, int64_t) {
    if (on_packed) next_range();
  });
  while (passed <= order.size()) next_range();
  found_.finite &= std::isfinite(loss);
  if (std::isfinite(loss)) found_.loss += loss_to_fixed(loss);
  found_.data_digest += digest;
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
  if (quantized_) quantized_->forget();
}

void GradientAccumulator::begin_step(int64_t step, std::span<const int32_t> exponents) {
  step_ = step;
  exponents_.assign(exponents.begin(), exponents.end());
  if (quantized_ && loss_scale_log2_ != model_.loss_scale_log2()) quantized_->forget();  // errors of sums of another scale
  loss_scale_log2_ = model_.loss_scale_log2();
  microbatches_.clear();
  begun_ = -1;
  ranges_packed_ = 0;
  rows_.clear();
  found_ = {};
  if (exact()) found_.maxima.assign(model_.table().entries.size(), 0.0F);
}

const LocalStep& GradientAccumulator::accumulate(int64_t step, std::span<const int64_t> microbatches,
                                                 std::span<const int32_t> exponents, const OnPacked& on_packed) {
  if (step != step_ || !std::ranges::equal(exponents, exponents_)) begin_step(step, exponents);
  fetched_ahead_ = on_packed != nullptr;
  if (fetched_ahead_) gradient_on_host_.prepare();   // for the thread that reduces
  if (overwritten_) gradient_on_host_.await_puts();  // of a reduction that may have failed
  std::vector<int64_t> missing;
  if (begun_ >= 0) missing.push_back(begun_);
  missing.insert(missing.end(), microbatches.begin(), microbatches.end());
  for (size_t i = 0; i < missing.size(); ++i) add(missing[i], i + 1 == missing.size() ? on_packed : OnPacked());
  if (microbatches_.empty()) ops_.zero(sums_.data<void>(), sums_.bytes());
  for (size_t range = 0; missing.empty() && range <= model_.gradient_order().size(); ++range) tell(range, on_packed);
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
  fetched_ahead_ = false;
  const bool still_there = microbatches_.size() == 1 && gradient_of_ == microbatches_.front() && !overwritten_;
  for (size_t i = 0; i < microbatches_.size(); ++i) {
    if (!still_there) compute(step_, microbatches_[i], keep_parts_apart);
    for (size_t t = 0; t < after.size(); ++t) {
      if (exponents_[t] != after[t]) pack(t, after[t], i == 0);
    }
    if (exponents_[kTied] != after[kTied]) {
      rows_.pack(model_.token_gradient(), after[kTied] - loss_scale_log2_);
      move_rows_to_sums();
    }
  }
  exponents_.assign(after.begin(), after.end());
}

std::vector<int32_t> GradientAccumulator::first_exponents(int64_t step) {
  compute(step, 0, keep_parts_apart);
  const auto& entries = model_.table().entries;
  std::vector<float> maxima = largest_of(entries);
  maxima[kTied] = sum_at_least(maxima[kTied], largest_of_rows(model_.token_gradient()));
  const std::vector<int32_t> unset(entries.size(), model::TrainState::kUnsetExponent);
  const bool finite = std::ranges::all_of(maxima, [](float largest) { return std::isfinite(largest); });
  return finite ? next_exponents(unset, maxima) : unset;
}

std::vector<int32_t> GradientAccumulator::next_exponents(std::span<const int32_t> exponents,
                                                         std::span<const float> maxima) const {
  std::vector<int32_t> next(exponents.begin(), exponents.end());
  for (size_t t = 0; t < maxima.size(); ++t) {
    next[t] = choose_exponent(maxima[t], headroom_bits(integer_bits(wire_)), limit_, exponent_of_zeros(exponents[t]));
  }
  return next;
}

CollectiveResult<void> GradientAccumulator::reduce(Communicator& ring) {
  if (auto done = reduce(ring, {0, model_.table().total}); !done) return done;
  return reduce_rows(ring);
}

CollectiveResult<void> GradientAccumulator::reduce_rows(Communicator& ring) {
  if (!fetched_ahead_) rows_.begin_fetch();
  const Elements tied = tied_elements(model_.table());
  const size_t first = static_cast<size_t>(tied.first) * sizeof(float);
  auto done = rows_.sum_over(ring, reinterpret_cast<float*>(gradient_on_host_.data() + first));
  if (done) gradient_on_host_.put(first, static_cast<size_t>(tied.count) * sizeof(float));
  return done;
}

// The tied embedding's part stays with the host until the rows are in it.
CollectiveResult<void> GradientAccumulator::reduce(Communicator& ring, Elements range) {
  overwritten_ = true;
  const auto first = static_cast<size_t>(range.first), count = static_cast<size_t>(range.count);
  if (!fetched_ahead_) {
    gradient_on_host_.prepare();
    sums_on_host_.begin_fetch(first * sum_bytes(wire_), count * sum_bytes(wire_));
  }
  sums_on_host_.finish_fetch(first * sum_bytes(wire_), count * sum_bytes(wire_));
  const auto done = reduce_on_host(ring, first, count);
  const Elements tied = tied_elements(model_.table());
  const size_t untied = std::clamp(static_cast<size_t>(tied.first + tied.count), first, first + count);
  if (done) gradient_on_host_.put(untied * sizeof(float), (first + count - untied) * sizeof(float));
  return done;
}

CollectiveResult<void> GradientAccumulator::reduce_on_host(Communicator& ring, size_t first, size_t count) {
  const std::span<float> result(reinterpret_cast<float*>(gradient_on_host_.data()) + first, count);
  const auto sums = [&]<typename T>(T) {
    return std::span<const T>(reinterpret_cast<const T*>(sums_on_host_.data()) + first, count);
  };
  switch (wire_) {
    case WireType::kInt32:
      return ring.all_reduce_sum(sums(int32_t{}), {reinterpret_cast<int32_t*>(result.data()), count});
    case WireType::kInt16:
      return sum_int16(ring, sums(int16_t{}), std::as_writable_bytes(result));
    case WireType::kFloat32:
      return ring.all_reduce_sum(sums(float{}), result);
    case WireType::kBFloat16:
      return sum_as_bfloat16(ring, sums(float{}), std::as_writable_bytes(result));
    case WireType::kFloat16:
      return sum_as_float16(ring, sums(float{}), std::as_writable_bytes(result));
    case WireType::kInt8:
      return quantized_->reduce(ring, first, sums(float{}), result);
  }
  throw std::invalid_argument("wire type " + std::to_string(static_cast<int>(wire_)) + " is none that is known");
}

void GradientAccumulator::unpack(std::span<const int32_t> exponents, bool alone) {
  overwritten_ = true;
  gradient_on_host_.await_puts();
  if (alone) move_rows_to_sums();
  if (exact()) {
    unpack_integers(exponents, alone);
  } else {
    unpack_floats(alone);
  }
}

void GradientAccumulator::unpack_integers(std::span<const int32_t> exponents, bool alone) {
  const auto& entries = model_.table().entries;
  for (size_t t = 0; t < entries.size(); ++t) {
    const auto scale = static_cast<float>(std::ldexp(1.0, -exponents[t]) / static_cast<double>(microbatches_of_step_));
    const int64_t offset = entries[t].offset;
    float* gradient = model_.gradients() + offset;
    if (alone && wire_ == WireType::kInt16) {
      ops_.fixed_unpack(gradient, sums_.data<int16_t>() + offset, entries[t].count, scale);
    } else {
      const int32_t* sums = alone ? sums_.data<int32_t>() + offset : reinterpret_cast<const int32_t*>(gradient);
      ops_.fixed_unpack(gradient, sums, entries[t].count, scale);
    }
  }
}

void GradientAccumulator::unpack_floats(bool alone) {
  const auto scale = static_cast<float>(std::ldexp(1.0 / static_cast<double>(microbatches_of_step_), -loss_scale_log2_));
  float* const mean = model_.gradients();
  ops_.scale(mean, alone ? sums_.data<float>() : mean, model_.table().total, scale);
  if (quantized_ && alone) quantized_->forget();  // nothing is rounded, and errors of long ago belong to no step
}

void GradientAccumulator::step_applied() {
  if (quantized_) quantized_->commit();
}

std::span<const float> GradientAccumulator::gradient_to_send() {
  const auto total = static_cast<size_t>(model_.table().total);
  gradient_on_host_.fetch(0, total * sizeof(float));
  return {reinterpret_cast<const float*>(gradient_on_host_.data()), total};
}

std::span<float> GradientAccumulator::overwrite_gradient() {
  overwritten_ = true;
  gradient_on_host_.prepare();
  ops_.synchronize();  // copies of a reduction that failed may be under way from there, and work given up on to the gradient
  return {reinterpret_cast<float*>(gradient_on_host_.data()), static_cast<size_t>(model_.table().total)};
}

void GradientAccumulator::gradient_received() {
  gradient_on_host_.put(0, static_cast<size_t>(model_.table().total) * sizeof(float));
  gradient_on_host_.await_puts();
}

}  // namespace holdfast::worker

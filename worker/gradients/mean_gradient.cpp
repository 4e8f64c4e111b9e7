#include "worker/gradients/mean_gradient.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <string>
#include <utility>

#include "worker/collectives/block_quantized.h"
#include "worker/gradients/exponent_rule.h"
#include "worker/gradients/narrow_sums.h"

namespace holdfast::worker {

static_assert(kQuantizedBlock == rendezvous::kInt8BlockElements, "the table of wire types says what a block of int8 is");

MeanGradient::MeanGradient(kernels::DeviceOps& ops, PackedSums& sums, int64_t dealt_units)
    : ops_(ops),
      sums_(sums),
      model_(sums.model),
      dealt_units_(dealt_units),
      sums_on_host_(ops, sums.values.data<void>(), sums.values.bytes()),
      gradient_on_host_(ops, model_.gradients(), static_cast<size_t>(model_.table().total) * sizeof(float)) {
  if (sums.wire == WireType::kInt8) quantized_.emplace(static_cast<size_t>(model_.table().total));
}

void MeanGradient::begin_step(int loss_scale_log2) {
  if (loss_scale_log2_ != loss_scale_log2) forget();
  loss_scale_log2_ = loss_scale_log2;
}

void MeanGradient::divide(std::vector<SumPart> parts, std::vector<Elements> own) {
  parts_ = std::move(parts);
  own_ = std::move(own);
}

void MeanGradient::forget() {
  if (quantized_) quantized_->forget();
}

void MeanGradient::expect_fetches(bool one_by_one) {
  fetched_ahead_ = one_by_one;
  if (fetched_ahead_) prepare_host_memory();  // for the thread that reduces
  const std::lock_guard lock(final_mutex_);
  final_.clear();
}

void MeanGradient::begin_fetch(Communicator& ring, Elements range) {
  if (between_devices(ring)) {
    const auto moment = ring.queued_on_device();
    const std::lock_guard lock(final_mutex_);
    final_.push_back({range, moment});
  } else {
    sums_on_host_.begin_fetch(sums_.bytes_of(range.first), sums_.bytes_of(range.count));
  }
}

void MeanGradient::begin_fetch_rows() {
  sums_.rows.begin_fetch();
}

void MeanGradient::await_puts() {
  if (overwritten_) gradient_on_host_.await_puts();
}

void MeanGradient::give_buffer_to_model() {
  await_puts();
  overwritten_ = false;
}

CollectiveResult<void> MeanGradient::reduce(Communicator& ring) {
  if (auto done = reduce(ring, {0, model_.table().total}); !done) return done;
  return model_.table().ties_head() ? reduce_rows(ring) : CollectiveResult<void>();
}

CollectiveResult<void> MeanGradient::reduce_rows(Communicator& ring) {
  if (!fetched_ahead_) sums_.rows.begin_fetch();
  return sums_.rows.gather(ring);
}

// Devices sum integers of 32 bits and floats.
bool MeanGradient::between_devices(const Communicator& ring) const {
  return (sums_.wire == WireType::kInt32 || sums_.wire == WireType::kFloat32) && ring.sums_on_devices();
}

// The last moment at which a part of the range became final. Of parts that are on their way to the host, because they were
// final before the devices were connected, the copies are waited for.
kernels::DeviceSums::Moment MeanGradient::final_moment(Elements range) {
  sums_on_host_.finish_fetch(sums_.bytes_of(range.first), sums_.bytes_of(range.count));
  kernels::DeviceSums::Moment last = 0;
  const std::lock_guard lock(final_mutex_);
  for (const auto& [elements, moment] : final_) {
    if (elements.first < range.first + range.count && range.first < elements.first + elements.count) last = moment;
  }
  return last;
}

CollectiveResult<void> MeanGradient::reduce_between_devices(Communicator& ring, Elements range) {
  using Element = kernels::DeviceSums::Element;
  if (!fetched_ahead_) {
    prepare_host_memory();
    begin_fetch(ring, range);
  }
  const size_t at = sums_.bytes_of(range.first);
  return ring.all_reduce_sum(DeviceMemory{.mine = sums_.values.data<std::byte>() + at,
                                          .sum = reinterpret_cast<std::byte*>(model_.gradients()) + at,
                                          .on_host = sums_on_host_.data() + at,
                                          .total_on_host = gradient_on_host_.data() + at,
                                          .count = static_cast<size_t>(range.count),
                                          .element = is_exact(sums_.wire) ? Element::kInt32 : Element::kFloat,
                                          .after = final_moment(range)});
}

CollectiveResult<void> MeanGradient::reduce(Communicator& ring, Elements range) {
  overwritten_ = true;
  if (between_devices(ring)) return reduce_between_devices(ring, range);
  const auto first = static_cast<size_t>(range.first), count = static_cast<size_t>(range.count);
  if (!fetched_ahead_) {
    gradient_on_host_.prepare();
    sums_on_host_.begin_fetch(first * sum_bytes(sums_.wire), count * sum_bytes(sums_.wire));
  }
  sums_on_host_.finish_fetch(first * sum_bytes(sums_.wire), count * sum_bytes(sums_.wire));
  const auto done = reduce_on_host(ring, first, count);
  if (done) gradient_on_host_.put(first * sizeof(float), count * sizeof(float));
  return done;
}

CollectiveResult<void> MeanGradient::reduce_on_host(Communicator& ring, size_t first, size_t count) {
  const std::span<float> result(reinterpret_cast<float*>(gradient_on_host_.data()) + first, count);
  const auto sums = [&]<typename T>(T) {
    return std::span<const T>(reinterpret_cast<const T*>(sums_on_host_.data()) + first, count);
  };
  const bool to_owners = !parts_.empty() && ring.nodes() == 0;
  const auto parts = to_owners ? parts_within(parts_, first, count) : std::vector<SumPart>();
  switch (sums_.wire) {
    case WireType::kInt32: {
      const std::span<int32_t> integers(reinterpret_cast<int32_t*>(result.data()), count);
      return to_owners ? ring.reduce_scatter_sum(sums(int32_t{}), integers, parts)
                       : ring.all_reduce_sum(sums(int32_t{}), integers);
    }
    case WireType::kInt16:
      return to_owners ? sum_int16_of_parts(ring, sums(int16_t{}), std::as_writable_bytes(result), parts)
                       : sum_int16(ring, sums(int16_t{}), std::as_writable_bytes(result));
    case WireType::kFloat32:
      return ring.all_reduce_sum(sums(float{}), result);
    case WireType::kBFloat16:
      return sum_as_bfloat16(ring, sums(float{}), std::as_writable_bytes(result));
    case WireType::kFloat16:
      return sum_as_float16(ring, sums(float{}), std::as_writable_bytes(result));
    case WireType::kInt8:
      return quantized_->reduce(ring, first, sums(float{}), result);
  }
  throw std::invalid_argument("wire type " + std::to_string(static_cast<int>(sums_.wire)) + " is not known");
}

void MeanGradient::unpack(std::span<const int32_t> exponents, bool alone) {
  overwritten_ = true;
  gradient_on_host_.await_puts();
  if (alone) {
    sums_.move_rows_to_values();
  } else {
    sums_.rows.add_gathered(model_.gradients() + tied_elements(model_.table()).first);
  }
  if (is_exact(sums_.wire)) {
    unpack_integers(exponents, alone);
  } else {
    unpack_floats(alone);
  }
}

void MeanGradient::unpack_integers(std::span<const int32_t> exponents, bool alone) {
  const std::vector<Elements> everything{{0, model_.table().total}};
  for (const Elements& range : parts_.empty() ? everything : own_) {
    for (const auto& [tensor, part] : model_.table().cut(range)) unpack_integers(part, exponents[tensor], alone);
  }
}

// A range of one tensor.
void MeanGradient::unpack_integers(Elements range, int32_t exponent, bool alone) {
  const float scale = mean_scale(exponent, dealt_units_);
  float* const gradient = model_.gradients() + range.first;
  if (alone && sums_.wire == WireType::kInt16) {
    ops_.fixed_unpack(gradient, sums_.values.data<int16_t>() + range.first, range.count, scale);
  } else {
    const int32_t* sums = alone ? sums_.values.data<int32_t>() + range.first : reinterpret_cast<const int32_t*>(gradient);
    ops_.fixed_unpack(gradient, sums, range.count, scale);
  }
}

void MeanGradient::unpack_floats(bool alone) {
  const auto scale = static_cast<float>(std::ldexp(1.0 / static_cast<double>(dealt_units_), -loss_scale_log2_));
  float* const mean = model_.gradients();
  ops_.scale(mean, alone ? sums_.values.data<float>() : mean, model_.table().total, scale);
  if (quantized_ && alone) quantized_->forget();  // nothing is rounded now, and errors of earlier steps belong to none
}

void MeanGradient::step_applied() {
  if (quantized_) quantized_->commit();
}

void MeanGradient::prepare_host_memory() {
  sums_on_host_.prepare();
  gradient_on_host_.prepare();
}

std::span<const float> MeanGradient::to_send() {
  const auto total = static_cast<size_t>(model_.table().total);
  gradient_on_host_.fetch(0, total * sizeof(float));
  return {reinterpret_cast<const float*>(gradient_on_host_.data()), total};
}

std::span<float> MeanGradient::overwrite() {
  overwritten_ = true;
  gradient_on_host_.prepare();
  ops_.synchronize();  // a failed reduction may have left copies from there, and abandoned work on the gradient
  return {reinterpret_cast<float*>(gradient_on_host_.data()), static_cast<size_t>(model_.table().total)};
}

void MeanGradient::received() {
  gradient_on_host_.put(0, static_cast<size_t>(model_.table().total) * sizeof(float));
  gradient_on_host_.await_puts();
}

}  // namespace holdfast::worker

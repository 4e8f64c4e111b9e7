#include "worker/gradients/scattered_gradients.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "model/state/train_state.h"
#include "worker/gradients/packed_sums.h"
#include "worker/profile/span.h"

namespace holdfast::worker {
namespace {

using model::Elements;

// Whole tensors of one range, or rows of a large one: never of two ranges, whose gradients are not there at the same time.
std::vector<std::vector<Elements>> buckets_by_range(const model::Gpt2& model, int64_t target) {
  std::vector<std::vector<Elements>> all;
  for (const Elements& range : model.gradient_order()) {
    auto& of_range = all.emplace_back();
    for (const GradientBucket& bucket : gradient_buckets(model.table(), {&range, 1}, target))
      of_range.push_back(bucket.elements);
  }
  return all;
}

int64_t largest_bucket(const std::vector<std::vector<Elements>>& buckets) {
  int64_t most = 0;
  for (const auto& of_range : buckets) {
    for (const Elements& bucket : of_range) most = std::max(most, bucket.count);
  }
  return most;
}

// The larger one; not finite if either is not.
float larger_of(float a, float b) {
  return std::isfinite(a) && !(b <= a) ? b : a;
}

int64_t tokens_of_rows(const GradientSetup& setup) {
  return setup.model.table().ties_head() ? setup.data.shape().tokens() : 0;
}

// The part of `a` that is in `b`.
Elements both(Elements a, Elements b) {
  const int64_t first = std::max(a.first, b.first), end = std::min(a.first + a.count, b.first + b.count);
  return {first, std::max<int64_t>(end - first, 0)};
}

}  // namespace

ScatteredGradients::ScatteredGradients(const GradientSetup& setup, int64_t bucket_elements)
    : ops_(setup.ops),
      model_(setup.model),
      wire_(setup.wire),
      dealt_units_(setup.dealt_units),
      rule_(setup.dealt_units, integer_bits(setup.wire)),
      pass_(setup),
      buckets_(buckets_by_range(setup.model, bucket_elements)),
      bucket_max_(largest_bucket(buckets_)),
      slots_{Slot(ops_, bytes_of(bucket_max_)), Slot(ops_, bytes_of(bucket_max_))},
      rows_(ops_, bytes_of(tokens_of_rows(setup) * model_.config().n_embd)),
      row_ids_(ops_, static_cast<size_t>(tokens_of_rows(setup)) * sizeof(int32_t)),
      no_row_(ops_, sizeof(int32_t)) {
  ops_.zero(no_row_.data<void>(), no_row_.bytes());
}

void ScatteredGradients::divide(std::vector<SumPart> parts, const std::vector<Elements>& own) {
  parts_ = std::move(parts);
  own_.clear();
  int64_t elements = 0;
  for (const Elements& range : own) own_.push_back({range, std::exchange(elements, elements + range.count)});
  owned_ = model::DeviceBuffer();  // before the new memory is taken
  owned_ = model::DeviceBuffer(ops_, bytes_of(elements));
}

void ScatteredGradients::prepare_host_memory() {
  for (Slot& slot : slots_) {
    slot.packed_on_host.prepare();
    slot.sum_on_host.prepare();
  }
}

CollectiveResult<LocalStep> ScatteredGradients::accumulate(Communicator& ring, CollectiveQueue* queue, int64_t step,
                                                           std::span<const int64_t> microbatches, size_t rounds,
                                                           std::span<const int32_t> exponents, const OnPhase& on_phase) {
  queue_ = queue;
  const size_t tensors = model_.table().entries.size();
  step_ = step;
  rounds_ = rounds;
  exponents_.assign(exponents.begin(), exponents.end());
  microbatches_.assign(microbatches.begin(), microbatches.end());
  looks_ = true;
  wanted_.assign(tensors, true);
  fits_.assign(tensors, true);
  found_ = {};
  found_.maxima.assign(tensors, 0.0F);
  in_ring_ = {};
  prepare_host_memory();
  ops_.zero(owned_.data<void>(), owned_.bytes());
  if (auto done = go_round(ring, on_phase); !done) return tl::unexpected(done.error());
  return found_;
}

CollectiveResult<void> ScatteredGradients::repack(Communicator& ring, std::span<const int32_t> after) {
  queue_ = nullptr;
  for (size_t t = 0; t < after.size(); ++t) wanted_[t] = exponents_[t] != after[t];
  fits_.assign(fits_.size(), true);
  looks_ = false;
  exponents_.assign(after.begin(), after.end());
  for (const auto& [elements, at] : own_) {
    for (const auto& [tensor, part] : model_.table().cut(elements)) {
      if (wanted_[tensor])
        ops_.zero(owned_.data<std::byte>() + bytes_of(at + (part.first - elements.first)), bytes_of(part.count));
    }
  }
  return go_round(ring, [](Phase) {});
}

CollectiveResult<void> ScatteredGradients::go_round(Communicator& ring, const OnPhase& on_phase) {
  for (Slot& slot : slots_) slot.bucket = {};  // of a step that failed
  try {
    for (size_t round = 0; round < rounds_; ++round) {
      if (round < microbatches_.size()) {
        on_phase(Phase::kComputing);
        compute(ring, microbatches_[round], on_phase);
      } else {
        on_phase(Phase::kRing);
        pass_along(ring);
      }
    }
    for (size_t i = 0; i < slots_.size(); ++i) free_slot();
  } catch (const RingFailed& failed) {
    return tl::unexpected(failed.error);
  }
  return {};
}

void ScatteredGradients::pass_along(Communicator& ring) {
  const auto& order = model_.gradient_order();
  const size_t tied_whole = is_tied(order.front()) ? 1 : 0;  // then it is told of first, and brought last
  model_.need_forward();
  for (size_t i = 0; i < buckets_.size(); ++i) {
    const size_t range = (i + tied_whole) % buckets_.size();
    const int64_t layer = model_.table().layer_of(model_.table().cut(order[range]).front().tensor);
    if (layer != model::kNoLayer) model_.need_backward(layer);
    for (const Elements& bucket : buckets_[range]) {
      if (!is_wanted(bucket)) continue;
      Slot& slot = free_slot();
      std::memset(slot.packed_on_host.data(), 0, bytes_of(bucket.count));
      send(ring, slot, bucket);
    }
  }
}

void ScatteredGradients::compute(Communicator& ring, int64_t microbatch, const OnPhase& on_phase) {
  const bool ties_head = model_.table().ties_head(), tied_by_rows = is_tied(model_.gradient_order().back());
  bool rings = false;
  const auto bring = [&](size_t range) {
    if (!std::exchange(rings, true)) on_phase(Phase::kRing);
    for (const Elements& bucket : buckets_[range]) {
      if (!is_wanted(bucket)) continue;
      Slot& slot = free_slot();
      pack(slot, bucket);
      slot.packed_on_host.begin_fetch(0, bytes_of(bucket.count));
      send(ring, slot, bucket);
    }
  };
  size_t range = 0;
  float head_largest = 0;
  const Computed computed = pass_.run(step_, microbatch, [&](int64_t first, int64_t count) {
    const Elements elements{first, count};
    if (!is_tied(elements)) {
      if (looks_) look_at(elements);
      bring(range);
    } else {
      const float largest = looks_ ? pass_.largest_of(elements).front() : 0;
      head_largest = larger_of(head_largest, largest);
      if (tied_by_rows) {
        if (first == 0) take_rows();
        look_at_tied(largest);
        bring(range);
      }
    }
    ++range;
  });
  if (ties_head && !tied_by_rows) {
    take_rows();
    look_at_tied(head_largest);
    bring(0);
  }
  if (!looks_) return;
  if (ties_head) found_.saw(kTiedTensor, sum_at_least(head_largest, rows_largest_));
  found_.add(computed);
}

bool ScatteredGradients::is_tied(Elements range) const {
  return model_.table().ties_head() && range.first < tied_elements(model_.table()).count;
}

void ScatteredGradients::look_at(Elements range) {
  const auto parts = model_.table().cut(range);
  const auto largest = pass_.largest_of(range);
  for (size_t i = 0; i < largest.size(); ++i) {
    found_.saw(parts[i].tensor, largest[i]);
    fits_[parts[i].tensor] = !rule_.overflows(largest[i], exponents_[parts[i].tensor]);
  }
}

// `head_largest` of the rows that are to be packed next: of a sum no element leaves its integers where both parts fit.
void ScatteredGradients::look_at_tied(float head_largest) {
  if (looks_) fits_[kTiedTensor] = !rule_.overflows(sum_at_least(head_largest, rows_largest_), exponents_[kTiedTensor]);
}

bool ScatteredGradients::is_wanted(Elements bucket) const {
  return std::ranges::any_of(model_.table().cut(bucket), [&](const model::TensorPart& part) { return wanted_[part.tensor]; });
}

void ScatteredGradients::accumulate_fixed(std::byte* to, const float* from, int64_t count, size_t tensor) {
  const int exponent = exponents_[tensor] - model_.loss_scale_log2();
  if (wire_ == WireType::kInt16) {
    ops_.fixed_accumulate(reinterpret_cast<int16_t*>(to), from, count, exponent, true);
  } else {
    ops_.fixed_accumulate(reinterpret_cast<int32_t*>(to), from, count, exponent, true);
  }
}

// Tensors that overflow bring zeros, which keep every sum within its integers.
void ScatteredGradients::pack(Slot& slot, Elements bucket) {
  for (const auto& [tensor, part] : model_.table().cut(bucket)) {
    std::byte* const to = slot.packed.data<std::byte>() + bytes_of(part.first - bucket.first);
    if (wanted_[tensor] && fits_[tensor]) {
      accumulate_fixed(to, model_.gradient_at(part), part.count, tensor);
    } else {
      ops_.zero(to, bytes_of(part.count));
    }
  }
  if (is_tied(bucket) && wanted_[kTiedTensor] && fits_[kTiedTensor]) add_rows(slot, bucket);
}

// Rows that do not fit are never added.
void ScatteredGradients::take_rows() {
  const model::TokenGradient gradient = model_.token_gradient();
  ids_.clear();
  if (!wanted_[kTiedTensor]) return;
  rows_largest_ = looks_ ? pass_.largest_of_rows() : 0;
  if (looks_ && rule_.overflows(rows_largest_, exponents_[kTiedTensor])) return;
  ids_.assign(gradient.ids.begin(), gradient.ids.end());
  accumulate_fixed(rows_.data<std::byte>(), gradient.rows, static_cast<int64_t>(ids_.size()) * model_.config().n_embd,
                   kTiedTensor);
}

// A bucket of the embedding has whole rows.
void ScatteredGradients::add_rows(Slot& slot, Elements bucket) {
  const int64_t C = model_.config().n_embd;
  const auto first_row = static_cast<int32_t>(bucket.first / C),
             end_row = static_cast<int32_t>((bucket.first + bucket.count) / C);
  const auto begin = std::ranges::lower_bound(ids_, first_row), end = std::ranges::lower_bound(ids_, end_row);
  if (begin == end) return;
  std::vector<int32_t> within;
  for (auto id = begin; id != end; ++id) within.push_back(*id - first_row);
  ops_.copy_to_device(row_ids_.data<void>(), within.data(), within.size() * sizeof(int32_t));
  const auto add = [&]<typename T>(T) {
    ops_.add_rows(slot.packed.data<T>(), rows_.data<T>() + (begin - ids_.begin()) * C, row_ids_.data<int32_t>(),
                  static_cast<int64_t>(within.size()), C);
  };
  with_integer(add);
}

ScatteredGradients::Slot& ScatteredGradients::free_slot() {
  Slot& slot = slots_[next_slot_];
  next_slot_ = (next_slot_ + 1) % slots_.size();
  if (slot.bucket.count > 0) arrive(slot);
  return slot;
}

void ScatteredGradients::send(Communicator& ring, Slot& slot, Elements bucket) {
  slot.bucket = bucket;
  if (queue_ != nullptr) {
    slot.number = queue_->add([this, &ring, &slot] { return reduce(ring, slot); }, "bucket to its owners");
    return;
  }
  const auto begin = std::chrono::steady_clock::now();
  const Span span(SpanKind::kBucket, "bucket to its owners");
  const auto reduced = reduce(ring, slot);
  in_ring_ += std::chrono::steady_clock::now() - begin;
  if (!reduced) throw RingFailed{reduced.error()};
  arrive(slot);
}

// On the queue's thread, or on the train thread where there is none.
CollectiveResult<void> ScatteredGradients::reduce(Communicator& ring, Slot& slot) {
  const auto count = static_cast<size_t>(slot.bucket.count);
  const auto parts = parts_within(parts_, static_cast<size_t>(slot.bucket.first), count);
  slot.packed_on_host.finish_fetch(0, bytes_of(slot.bucket.count));
  CollectiveResult<void> reduced;
  with_integer([&]<typename T>(T) {
    const std::span<const T> packed(reinterpret_cast<const T*>(slot.packed_on_host.data()), count);
    const std::span<T> sum(reinterpret_cast<T*>(slot.sum_on_host.data()), count);
    if (ring.world_size() == 1) {
      std::ranges::copy(packed, sum.begin());
    } else {
      reduced = ring.reduce_scatter_sum(packed, sum, parts);
    }
  });
  return reduced;
}

void ScatteredGradients::arrive(Slot& slot) {
  if (queue_ != nullptr) {
    const auto begin = std::chrono::steady_clock::now();
    const Span span(SpanKind::kWait, "wait for the reduction");
    queue_->await(slot.number);
    in_ring_ += std::chrono::steady_clock::now() - begin;
  }
  keep_own(slot);
  slot.bucket = {};
}

void ScatteredGradients::keep_own(Slot& slot) {
  const Elements bucket = slot.bucket;
  const auto first_behind = [&](const Own& own) { return own.elements.first + own.elements.count <= bucket.first; };
  for (auto own = std::ranges::partition_point(own_, first_behind); own != own_.end(); ++own) {
    const Elements part = both(own->elements, bucket);
    if (part.count == 0) break;
    const int64_t in_bucket = part.first - bucket.first;
    slot.sum_on_host.put(bytes_of(in_bucket), bytes_of(part.count));
    slot.sum_on_host.await_puts();
    with_integer([&]<typename T>(T) {
      ops_.add_rows(owned_.data<T>() + own->at + (part.first - own->elements.first), slot.sum.data<T>() + in_bucket,
                    no_row_.data<int32_t>(), 1, part.count);
    });
  }
  if (!ops_.memory_is_host()) ops_.synchronize();  // before another bucket takes its memory
}

std::vector<int32_t> ScatteredGradients::first_exponents(int64_t step) {
  const auto& table = model_.table();
  std::vector<float> maxima(table.entries.size());
  pass_.run(step, 0, [&](int64_t first, int64_t count) {
    const auto parts = table.cut({first, count});
    const auto largest = pass_.largest_of({first, count});
    for (size_t i = 0; i < parts.size(); ++i) maxima[parts[i].tensor] = larger_of(maxima[parts[i].tensor], largest[i]);
  });
  maxima[kTiedTensor] = sum_at_least(maxima[kTiedTensor], pass_.largest_of_rows());
  return rule_.for_first_step(maxima);
}

void ScatteredGradients::unpack() {
  scales_.clear();
  for (const int32_t exponent : exponents_) scales_.push_back(mean_scale(exponent, dealt_units_));
  if (wire_ == WireType::kInt16) return;
  for (const auto& [elements, at] : own_) {
    for (const auto& [tensor, part] : model_.table().cut(elements)) {
      const int64_t place = at + (part.first - elements.first);
      ops_.fixed_unpack(owned_.data<float>() + place, owned_.data<int32_t>() + place, part.count, scales_[tensor]);
    }
  }
}

model::Gradient ScatteredGradients::mean() const {
  if (wire_ != WireType::kInt16) return {owned_.data<float>(), model::Layout::kOwned};
  return {nullptr, model::Layout::kOwned, owned_.data<int16_t>(), scales_};
}

}  // namespace holdfast::worker

#include "model/state/train_state.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <utility>

#include "model/parameter_views.h"
#include "model/state/owned_chunks.h"
#include "storage/parallel.h"

namespace holdfast::model {

TrainState::TrainState(Gpt2& model, kernels::DeviceOps& ops, Owns owns, kernels::DeviceOps* host)
    : model_(model),
      ops_(ops),
      host_(host),
      divided_(owns == Owns::kNothing),
      in_place_(divided_ && host == nullptr && ops.memory_is_host()),
      chunks_(model.table().chunks()),
      owned_(chunks_.size()),
      awaited_(chunks_.size()),
      places_(chunks_.size(), -1),
      exponents_(model.table().entries.size(), kUnsetExponent) {
  if (offloaded()) passing_ = DeviceBuffer(ops_, 2 * kUnpackedElements * sizeof(float), DeviceBuffer::Memory::kStaging);
  if (in_place_) {
    m_ = floats(model.table().total);
    v_ = floats(model.table().total);
    if (copies_apart()) parameters_ = floats(model.table().total);
  }
  own(std::vector<bool>(chunks_.size(), owns == Owns::kAll));
  if (ops.activation_dtype() == kernels::DType::kFloat16) loss_scale_.emplace();
  model_.set_loss_scale(loss_scale_log2());
}

std::span<int32_t> TrainState::exponents() {
  return exponents_;
}

DeviceBuffer TrainState::floats(int64_t count) const {
  using enum DeviceBuffer::Memory;
  return {ops_, static_cast<size_t>(count) * sizeof(float), in_place_ ? kReserved : offloaded() ? kStaging : kDevice};
}

std::vector<DeviceBuffer*> TrainState::buffers() {
  std::vector<DeviceBuffer*> all{&m_, &v_};
  if (copies_apart()) all.push_back(&parameters_);
  return all;
}

void TrainState::own(const std::vector<bool>& chunks, const std::vector<bool>& awaited) {
  if (chunks == owned_) return await(awaited);
  lent_.await_reader();
  in_place_ ? own_in_place(chunks, awaited) : own_elsewhere(chunks, awaited);
  owned_ = chunks;
  places_ = places_of(chunks_, chunks);
  owned_elements_ = elements_of(chunks_, chunks);
  await(awaited);
}

void TrainState::own_in_place(const std::vector<bool>& chunks, const std::vector<bool>& awaited) {
  for (DeviceBuffer* const buffer : buffers()) {
    for (size_t c = 0; c < chunks_.size(); ++c) {
      const auto bytes = static_cast<size_t>(chunks_[c].count) * sizeof(float);
      if (chunks[c] && !owned_[c] && (awaited.empty() || !awaited[c])) {
        ops_.zero(buffer->data<float>() + chunks_[c].first, bytes);
      }
    }
    // Runs of chunks that are not owned, so that pages are whole where small tensors share them.
    for (size_t c = 0, end = 0; c < chunks_.size(); c = end + 1) {
      bool was_owned = false;
      for (end = c; end < chunks_.size() && !chunks[end]; ++end) was_owned |= owned_[end];
      const int64_t last = end < chunks_.size() ? chunks_[end].first : model_.table().total;
      const auto first = static_cast<size_t>(chunks_[c].first);
      if (was_owned) buffer->give_back(first * sizeof(float), (static_cast<size_t>(last) - first) * sizeof(float));
    }
  }
}

void TrainState::own_elsewhere(const std::vector<bool>& chunks, const std::vector<bool>& awaited) {
  const auto after = places_of(chunks_, chunks);
  std::vector<DeviceBuffer> all;
  for (DeviceBuffer* const from : buffers()) {
    DeviceBuffer& to = all.emplace_back(floats(elements_of(chunks_, chunks)));
    for (size_t c = 0; c < chunks_.size(); ++c) {
      if (after[c] < 0) continue;
      float* const place = to.data<float>() + after[c];
      if (places_[c] >= 0) {
        keeper().scale(place, from->data<float>() + places_[c], chunks_[c].count, 1.0F);
      } else if (awaited.empty() || !awaited[c]) {
        keeper().zero(place, static_cast<size_t>(chunks_[c].count) * sizeof(float));
      }
    }
  }
  ops_.synchronize();  // before the old memory is released
  for (size_t i = 0; DeviceBuffer* const buffer : buffers()) *buffer = std::move(all[i++]);
}

void TrainState::await(const std::vector<bool>& chunks) {
  awaited_ = chunks.empty() ? std::vector<bool>(chunks_.size()) : chunks;
  slices_ = slices_of(chunks_, places_, awaited_);
}

float* TrainState::parameters_of(size_t chunk) {
  return copies_apart() ? parameters_.data<float>() + place_of(chunk) : model_.parameters() + chunks_[chunk].first;
}

tl::expected<void, std::string> TrainState::initialize(const InitialValues& initial) {
  lent_.await_reader();
  if (!copies_apart()) return model_.initialize(initial);
  DeviceBuffer others = floats(kChunkElements);
  for (size_t c = 0, tensor = 0; c < chunks_.size(); ++tensor) {
    const Parameter& parameter = model_.table().entries[tensor];
    std::vector<float> values(static_cast<size_t>(parameter.count));
    if (auto filled = initial.fill(tensor, values); !filled) return filled;
    for (; c < chunks_.size() && chunks_[c].first < parameter.offset + parameter.count; ++c) {
      float* const to = owned_[c] ? parameters_of(c) : others.data<float>();
      keeper().copy_to_device(to, values.data() + (chunks_[c].first - parameter.offset),
                              static_cast<size_t>(chunks_[c].count) * sizeof(float));
      if (copies_stay()) refresh_from(c, to);
      ops_.synchronize();  // before `others` is written again
    }
  }
  model_.copies_changed();
  return {};
}

float* TrainState::unpacked() {
  if (unpacked_.bytes() == 0) unpacked_ = DeviceBuffer(ops_, kUnpackedElements * sizeof(float));
  return unpacked_.data<float>();
}

// As many chunks at a time as there is memory for their floats.
std::vector<double> TrainState::squares_of_sums(const Gradient& gradient, const std::vector<bool>& wanted) {
  constexpr int64_t kAtATime = kUnpackedElements / kChunkElements;
  std::vector<double> squares(chunks_.size());
  std::vector<size_t> taken;
  const auto square = [&] {
    std::vector<kernels::DeviceOps::Floats> of;
    for (const size_t c : taken) {
      float* const to = unpacked() + static_cast<int64_t>(of.size()) * kChunkElements;
      const int64_t at = gradient.layout == Layout::kTable ? chunks_[c].first : places_[c];
      const size_t tensor = model_.table().cut(chunks_[c]).front().tensor;
      ops_.fixed_unpack(to, gradient.sums + at, chunks_[c].count, gradient.scales[tensor]);
      of.push_back({to, chunks_[c].count});
    }
    const auto found = squares_of(ops_, of);
    for (size_t i = 0; i < taken.size(); ++i) squares[taken[i]] = found[i];
    taken.clear();
  };
  for (size_t c = 0; c < chunks_.size(); ++c) {
    if (wanted[c]) taken.push_back(c);
    if (static_cast<int64_t>(taken.size()) == kAtATime) square();
  }
  if (!taken.empty()) square();
  return squares;
}

std::vector<double> TrainState::squares(const Gradient& gradient, const std::vector<bool>& wanted) {
  if (gradient.sums != nullptr) return squares_of_sums(gradient, wanted);
  std::vector<kernels::DeviceOps::Floats> of;
  for (size_t c = 0; c < chunks_.size(); ++c) {
    const int64_t at = gradient.layout == Layout::kTable ? chunks_[c].first : places_[c];
    of.push_back({wanted[c] ? gradient.floats + at : gradient.floats, wanted[c] ? chunks_[c].count : 0});
  }
  return squares_of(ops_, of);
}

void TrainState::apply(const OptimizerConfig& config, const Gradient& gradient, double norm) {
  lent_.await_reader();
  if (std::isfinite(norm) && offloaded()) {
    apply_on_host(config, gradient, norm);
  } else if (std::isfinite(norm)) {
    const AdamWTensors tensors{.parameters = copies_apart() ? parameters_.data<float>() : model_.parameters(),
                               .parameters_layout = copies_apart() ? layout() : Layout::kTable,
                               .m = m_.data<float>(),
                               .v = v_.data<float>(),
                               .moments_layout = layout(),
                               .gradient = gradient,
                               .owned = slices_,
                               .unpacked = gradient.sums != nullptr ? unpacked() : nullptr};
    apply_adamw(ops_, model_.table(), config, tensors, step, step, norm);
  }
  applied(norm);
}

void TrainState::apply_on_host(const OptimizerConfig& config, const Gradient& gradient, double norm) {
  const size_t element = gradient.sums != nullptr ? sizeof(int16_t) : sizeof(float);
  struct Piece {
    Elements elements;
    int64_t at;  // its place among the owned
    std::byte* staging;
    kernels::DeviceOps::Copy copy;
  };
  std::vector<Piece> pieces;
  for (const auto& [elements, at] : slices_) {
    for (int64_t done = 0; done < elements.count; done += kUnpackedElements) {
      std::byte* const staging = passing_.data<std::byte>() + pieces.size() % 2 * (passing_.bytes() / 2);
      pieces.push_back({{elements.first + done, std::min(kUnpackedElements, elements.count - done)}, at + done, staging, {}});
    }
  }
  const auto begin = [&](Piece& piece) {
    const int64_t from = gradient.layout == Layout::kTable ? piece.elements.first : piece.at;
    const auto* const first = gradient.sums != nullptr ? reinterpret_cast<const std::byte*>(gradient.sums)
                                                       : reinterpret_cast<const std::byte*>(gradient.floats);
    piece.copy = ops_.begin_copy_to_host(piece.staging, first + static_cast<size_t>(from) * element,
                                         static_cast<size_t>(piece.elements.count) * element);
  };
  if (host_unpacked_.empty() && gradient.sums != nullptr) host_unpacked_.resize(kUnpackedElements);
  if (!pieces.empty()) begin(pieces.front());
  for (size_t i = 0; i < pieces.size(); ++i) {
    if (i + 1 < pieces.size()) begin(pieces[i + 1]);
    const Piece& piece = pieces[i];
    ops_.finish_copy(piece.copy);
    const OwnedElements owned{piece.elements, 0};
    AdamWTensors tensors{.parameters = parameters_.data<float>() + piece.at,
                         .parameters_layout = Layout::kOwned,
                         .m = m_.data<float>() + piece.at,
                         .v = v_.data<float>() + piece.at,
                         .moments_layout = Layout::kOwned,
                         .gradient = {reinterpret_cast<const float*>(piece.staging), Layout::kOwned},
                         .owned = {&owned, 1},
                         .unpacked = host_unpacked_.data()};
    if (gradient.sums != nullptr) {
      tensors.gradient = {nullptr, Layout::kOwned, reinterpret_cast<const int16_t*>(piece.staging), gradient.scales};
    }
    apply_adamw(*host_, model_.table(), config, tensors, step, step, norm);
  }
}

double TrainState::apply(const OptimizerConfig& config, const float* gradients) {
  const double norm = norm_of(ops_, chunks_, gradients);
  apply(config, Gradient{gradients}, norm);
  return norm;
}

double TrainState::apply_outer(const kernels::NesterovStep& settings, const float* difference) {
  const double norm = norm_of(ops_, chunks_, difference);
  lent_.await_reader();
  if (std::isfinite(norm)) ops_.nesterov(model_.parameters(), m_.data<float>(), difference, model_.table().total, settings);
  applied(norm);
  return norm;
}

// Counts the step, unless its gradient has changed nothing. Where the state is divided, compute copies stay as they were: the
// copies that others own are still to come.
void TrainState::applied(double norm) {
  if (!std::isfinite(norm)) return;
  if (!divided_) copies_apart() ? bytes_changed() : model_.parameters_changed();
  step += 1;
  if (loss_scale_) loss_scale_->step_applied();
  model_.set_loss_scale(loss_scale_log2());
}

void TrainState::leave_out() {
  lent_.await_reader();
  step += 1;
  if (loss_scale_) loss_scale_->step_left_out();
  model_.set_loss_scale(loss_scale_log2());
}

std::vector<StateTensor> TrainState::tensors() {
  lent_.await_reader();
  std::vector<StateTensor> all;
  const auto add_floats = [this, &all](const std::string& prefix, float* flat) {
    for (const Parameter& parameter : model_.table().entries) {
      float* const data = flat == nullptr ? nullptr : flat + parameter.offset;
      all.push_back({prefix + parameter.name, "float32", parameter.shape, reinterpret_cast<std::byte*>(data),
                     static_cast<size_t>(parameter.count) * sizeof(float), offloaded()});
    }
  };
  add_floats("", !copies_apart() ? model_.parameters() : is_whole() ? parameters_.data<float>() : nullptr);
  add_floats("exp_avg/", is_whole() ? m_.data<float>() : nullptr);
  add_floats("exp_avg_sq/", is_whole() ? v_.data<float>() : nullptr);
  const std::span<std::byte> exponent_bytes = std::as_writable_bytes(exponents());
  all.push_back({"reduction/exponents",
                 "int32",
                 {static_cast<int64_t>(exponents_.size())},
                 exponent_bytes.data(),
                 exponent_bytes.size(),
                 true,
                 false});
  if (loss_scale_) {
    all.push_back({"loss_scale", "int32", {2}, reinterpret_cast<std::byte*>(&*loss_scale_), sizeof(LossScale), true, false});
  }
  return all;
}

std::vector<StatePiece> TrainState::pieces() {
  lent_.await_reader();
  static_assert(kChunkElements == storage::kPieceElements);
  std::vector<StatePiece> all;
  const auto add = [&](float* data, int64_t count) {
    all.push_back({reinterpret_cast<std::byte*>(data), static_cast<size_t>(count) * sizeof(float), offloaded()});
  };
  for (size_t c = 0; c < chunks_.size(); ++c) {
    const bool here = owned_[c] || !copies_apart();
    add(here ? parameters_of(c) : nullptr, chunks_[c].count);
  }
  for (DeviceBuffer* const moments : {&m_, &v_}) {
    for (size_t c = 0; c < chunks_.size(); ++c)
      add(owned_[c] ? moments->data<float>() + place_of(c) : nullptr, chunks_[c].count);
  }
  constexpr size_t kPieceBytes = storage::kPieceElements * sizeof(int32_t);
  for (const StateTensor& tensor : tensors()) {
    for (size_t at = 0; at < tensor.bytes && !tensor.in_chunks; at += kPieceBytes)
      all.push_back({tensor.data + at, std::min(kPieceBytes, tensor.bytes - at), true});
  }
  return all;
}

std::vector<StatePiece> TrainState::copies() {
  std::vector<StatePiece> all;
  for (const Elements& chunk : chunks_) {
    const ComputeCopy copy = model_.copy_of(chunk);
    all.push_back({copy.data, copy.bytes});
  }
  return all;
}

void TrainState::bytes_changed() {
  for (size_t c = 0; c < chunks_.size() && !model_.copies_by_layer(); ++c) {
    if (owned_[c] && !awaited_[c]) refresh(c);
  }
  model_.copies_changed();
  model_.set_loss_scale(loss_scale_log2());
}

void TrainState::refresh(size_t chunk) {
  refresh_from(chunk, parameters_of(chunk));
}

void TrainState::refresh_from(size_t chunk, const float* masters) {
  if (!offloaded()) return model_.refresh(chunks_[chunk], masters);
  const ComputeCopy copy = model_.copy_of(chunks_[chunk]);
  const void* from = masters;
  if (copy.is_half) {
    host_->cast(passing_.data<kernels::Act>(), masters, chunks_[chunk].count);
    from = passing_.data<void>();
  }
  ops_.copy_to_device(copy.data, from, copy.bytes);
  ops_.synchronize();  // before the memory is used for another chunk
}

// Of pieces in the host's memory, by as many threads as compute: training stands still meanwhile.
std::vector<std::optional<storage::PieceDigest>> TrainState::digests_on_host(const std::vector<StatePiece>& here) {
  std::vector<std::optional<storage::PieceDigest>> all(here.size());
  const auto digest = [&](size_t i, int) -> storage::Result<void> {
    if (here[i].data != nullptr) all[i] = storage::digest_of({here[i].data, here[i].bytes});
    return {};
  };
  const auto done = storage::in_parallel(here.size(), std::max(ops_.info().threads, 1), digest);
  if (!done) throw std::runtime_error(done.error().message);
  return all;
}

std::vector<std::optional<storage::PieceDigest>> TrainState::digests(const std::vector<StatePiece>& here) {
  ops_.synchronize();
  if (ops_.memory_is_host()) return digests_on_host(here);
  std::vector<std::optional<storage::PieceDigest>> all;
  std::vector<std::byte> copy(1 << 20);  // several pieces, for a device is asked for as few copies as may be
  const std::byte* copied = nullptr;     // its source, in the device's memory
  size_t copied_bytes = 0;
  for (size_t i = 0; i < here.size(); ++i) {
    const StatePiece& piece = here[i];
    if (piece.data == nullptr) {
      all.emplace_back();
    } else if (piece.on_host) {
      all.emplace_back(storage::digest_of({piece.data, piece.bytes}));
    } else {
      if (copied == nullptr || piece.data + piece.bytes > copied + copied_bytes || piece.data < copied) {
        copied = piece.data;
        copied_bytes = 0;
        for (size_t next = i; next < here.size() && here[next].data == copied + copied_bytes && !here[next].on_host &&
                              copied_bytes + here[next].bytes <= copy.size();
             ++next)
          copied_bytes += here[next].bytes;
        ops_.copy_to_host(copy.data(), copied, copied_bytes);
      }
      all.emplace_back(storage::digest_of({copy.data() + (piece.data - copied), piece.bytes}));
    }
  }
  return all;
}

std::string TrainState::hash() {
  std::vector<storage::PieceDigest> all;
  for (const auto& digest : digests()) all.push_back(digest.value());
  return storage::state_hash_of(all);
}

}  // namespace holdfast::model

#include "model/parameter_views.h"

#include <algorithm>
#include <iterator>

namespace holdfast::model {

namespace {

bool enters_a_product(const Parameter& parameter) {
  return parameter.shape.size() == 2 && parameter.name != "wpe.weight";
}

size_t aligned_bytes(int64_t count, size_t element_bytes) {
  return (static_cast<size_t>(count) * element_bytes + 63) / 64 * 64;
}

}  // namespace

ParameterViews::ParameterViews(const ParameterTable& table, kernels::DeviceOps& ops, float* masters,
                               std::span<float* const> gradients, bool by_layer)
    : masters_(masters) {
  const kernels::DType dtype = ops.activation_dtype();
  const auto is_half = [&](const Parameter& entry) { return dtype != kernels::DType::kFloat32 && enters_a_product(entry); };
  const auto is_copied = [&](const Parameter& entry) { return masters == nullptr || is_half(entry); };
  const auto copy_bytes = [&](const Parameter& entry) {
    return aligned_bytes(entry.count, is_half(entry) ? kernels::dtype_size(dtype) : sizeof(float));
  };
  const auto has_its_own = [&](size_t tensor) { return !by_layer || table.layer_of(tensor) <= 1; };
  size_t bytes = 0;
  for (size_t t = 0; t < table.entries.size(); ++t) {
    if (is_copied(table.entries[t]) && has_its_own(t)) bytes += copy_bytes(table.entries[t]);
  }
  if (bytes > 0) memory_ = DeviceBuffer(ops, bytes);

  auto entry = table.entries.begin();  // the walk below is the table's order
  std::byte* free = memory_.data<std::byte>();
  const auto next = [&] {
    float* const gradient = gradients[static_cast<size_t>(entry - table.entries.begin())];
    const Parameter& parameter = *entry++;
    const float* const master = masters == nullptr ? nullptr : masters + parameter.offset;
    Tensor tensor{master, nullptr, gradient};
    const auto* read = reinterpret_cast<const std::byte*>(master);
    if (is_copied(parameter)) {
      copies_.push_back({{parameter.offset, parameter.count}, free, is_half(parameter)});
      read = free;
      free += copy_bytes(parameter);
      if (!is_half(parameter)) tensor.value = reinterpret_cast<const float*>(read);
    }
    if (enters_a_product(parameter)) tensor.act = reinterpret_cast<const kernels::Act*>(read);
    return tensor;
  };

  wte = next(), wpe = next();
  layers.resize(static_cast<size_t>(table.layer_of(table.entries.size() - (table.ties_head() ? 3 : 4)) + 1));
  std::vector<std::byte*> bounds = {free};  // of the memory of layers, where two of them have it all
  for (size_t i = 0; i < layers.size(); ++i) {
    Layer& layer = layers[i];
    if (by_layer) free = bounds[i < 2 ? i : i % 2];
    layer.ln_1_weight = next(), layer.ln_1_bias = next();
    layer.attn_weight = next(), layer.attn_bias = next();
    layer.attn_proj_weight = next(), layer.attn_proj_bias = next();
    layer.ln_2_weight = next(), layer.ln_2_bias = next();
    layer.fc_weight = next(), layer.fc_bias = next();
    layer.mlp_proj_weight = next(), layer.mlp_proj_bias = next();
    if (i < 2) bounds.push_back(free);
  }
  if (by_layer) free = bounds.back();
  ln_f_weight = next(), ln_f_bias = next();
  head = table.ties_head() ? wte : next();
}

void ParameterViews::cast(kernels::DeviceOps& ops) {
  for (const Copy& copy : copies_) cast(ops, copy.of, masters_ + copy.of.first);
}

const ParameterViews::Copy* ParameterViews::copy_with(Elements range) const {
  const auto first = [](const Copy& copy) { return copy.of.first; };
  const auto behind = std::ranges::upper_bound(copies_, range.first, {}, first);
  if (behind == copies_.begin()) return nullptr;
  const Copy& copy = *std::prev(behind);
  return range.first < copy.of.first + copy.of.count ? &copy : nullptr;
}

ComputeCopy ParameterViews::copy_of(Elements range) const {
  const auto count = static_cast<size_t>(range.count);
  const Copy* const copy = copy_with(range);
  if (copy == nullptr) return {reinterpret_cast<std::byte*>(masters_ + range.first), count * sizeof(float), false};
  const size_t element_bytes = copy->is_half ? 2 : sizeof(float);
  return {copy->to + static_cast<size_t>(range.first - copy->of.first) * element_bytes, count * element_bytes, copy->is_half};
}

void ParameterViews::cast(kernels::DeviceOps& ops, Elements range, const float* masters) {
  const ComputeCopy copy = copy_of(range);
  if (copy.is_half) {
    ops.cast(reinterpret_cast<kernels::Act*>(copy.data), masters, range.count);
  } else if (auto* const here = reinterpret_cast<float*>(copy.data); here != masters) {
    ops.scale(here, masters, range.count, 1.0F);
  }
}

}  // namespace holdfast::model

#include "model/parameter_views.h"

namespace holdfast::model {

namespace {

bool enters_a_product(const Parameter& parameter) {
  return parameter.shape.size() == 2 && parameter.name != "wpe.weight";
}

size_t aligned_bytes(int64_t count, size_t element_bytes) {
  return (static_cast<size_t>(count) * element_bytes + 63) / 64 * 64;
}

}  // namespace

ParameterViews::ParameterViews(const ParameterTable& table, kernels::DeviceOps& ops, float* parameters, float* gradients) {
  const kernels::DType dtype = ops.activation_dtype();
  const bool copied = dtype != kernels::DType::kFloat32;
  const size_t act_bytes = kernels::dtype_size(dtype);
  if (copied) {
    size_t bytes = 0;
    for (const Parameter& entry : table.entries) bytes += enters_a_product(entry) ? aligned_bytes(entry.count, act_bytes) : 0;
    memory_ = DeviceBuffer(ops, bytes);
  }

  auto entry = table.entries.begin();  // the walk below is the table's order
  std::byte* free = memory_.data<std::byte>();
  const auto next = [&] {
    const Parameter& parameter = *entry++;
    const float* value = parameters + parameter.offset;
    Tensor tensor{value, nullptr, gradients + parameter.offset};
    if (enters_a_product(parameter)) {
      if (copied) {
        copies_.push_back({reinterpret_cast<kernels::Act*>(free), value, parameter.count});
        tensor.act = copies_.back().to;
        free += aligned_bytes(parameter.count, act_bytes);
      } else {
        tensor.act = reinterpret_cast<const kernels::Act*>(value);
      }
    }
    return tensor;
  };

  wte = next(), wpe = next();
  layers.resize((table.entries.size() - 4) / 12);
  for (Layer& layer : layers) {
    layer.ln_1_weight = next(), layer.ln_1_bias = next();
    layer.attn_weight = next(), layer.attn_bias = next();
    layer.attn_proj_weight = next(), layer.attn_proj_bias = next();
    layer.ln_2_weight = next(), layer.ln_2_bias = next();
    layer.fc_weight = next(), layer.fc_bias = next();
    layer.mlp_proj_weight = next(), layer.mlp_proj_bias = next();
  }
  ln_f_weight = next(), ln_f_bias = next();
}

void ParameterViews::cast(kernels::DeviceOps& ops) {
  for (const Copy& copy : copies_) ops.cast(copy.to, copy.from, copy.count);
}

}  // namespace holdfast::model

#include "model/gradient_memory.h"

#include <algorithm>

namespace holdfast::model {
namespace {

// The head's range, unless it comes by rows, is the first, and beside the others, which have the same memory.
int64_t elements_needed(std::span<const Elements> order, Gradients kind, bool head_by_rows) {
  int64_t sum = 0, most = 0;
  for (const Elements& range : order) sum += range.count;
  if (kind == Gradients::kWhole) return sum;
  for (const Elements& range : order.subspan(head_by_rows ? 0 : 1)) most = std::max(most, range.count);
  return most + (head_by_rows ? 0 : order.front().count);
}

}  // namespace

GradientMemory::GradientMemory(const ParameterTable& table, kernels::DeviceOps& ops, Gradients kind)
    : table_(table),
      kind_(kind),
      head_by_rows_(kind == Gradients::kByRange && ops.head_rows() > 0),
      order_(is_whole() ? table.backward_order() : table.backward_parts(ops.head_rows())),
      memory_(ops, static_cast<size_t>(elements_needed(order_, kind, head_by_rows_)) * sizeof(float)),
      places_(table.entries.size()) {
  for (const Elements& range : order_) {
    const bool beside_head = !is_whole() && !head_by_rows_ && range != order_.front();
    float* const place = memory_.data<float>() + (is_whole() ? range.first : beside_head ? order_.front().count : 0);
    for (const TensorPart& part : table.cut(range)) places_[part.tensor] = place + (part.elements.first - range.first);
  }
}

const float* GradientMemory::at(Elements part) const {
  const size_t tensor = table_.cut(part).front().tensor;
  const bool is_at_hand = rows_.first <= part.first && part.first < rows_.first + rows_.count;
  return places_[tensor] + (part.first - (is_at_hand ? rows_.first : table_.entries[tensor].offset));
}

void GradientMemory::clear_biases(kernels::DeviceOps& ops, Elements range) {
  for (const TensorPart& part : table_.cut(range)) {
    if (table_.entries[part.tensor].is_bias())
      ops.zero(places_[part.tensor], static_cast<size_t>(part.elements.count) * sizeof(float));
  }
}

}  // namespace holdfast::model

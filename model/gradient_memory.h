// The memory that a backward pass writes gradients to: for the whole table, flat; or for one range at a time, which is there
// when whoever listens is told of it, and is written over when they return.
//
// By range a layer comes in three, and the head's matrix last, in ranges of rows that are no larger; where an op set has all
// its rows at once alone (DeviceOps::head_rows), it is there whole, beside the others. A wte that is not tied to the head comes
// in rows, too. Device memory. Thread: that of the pass.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/ops.h"
#include "model/device_buffer.h"
#include "model/parameter_table.h"

namespace holdfast::model {

enum class Gradients : uint8_t { kWhole, kByRange };

class GradientMemory {
 public:
  // `table` and `ops` outlive it. Throws what DeviceOps::allocate does.
  GradientMemory(const ParameterTable& table, kernels::DeviceOps& ops, Gradients kind);

  // The order in which a pass finishes the ranges: ParameterTable::backward_order, or backward_parts.
  const std::vector<Elements>& order() const { return order_; }
  bool is_whole() const { return kind_ == Gradients::kWhole; }
  bool head_by_rows() const { return head_by_rows_; }
  // Where a pass writes each tensor's gradient: its first element, or that of the rows at hand.
  std::span<float* const> places() const { return places_; }
  // The rows at hand, of a tensor that comes by rows, are this range of order().
  void begin_rows(Elements range) { rows_ = range; }
  // Of elements of one tensor, while they are there.
  const float* at(Elements part) const;
  // Zero for the biases of a range that ends where tensors end.
  void clear_biases(kernels::DeviceOps& ops, Elements range);

  float* flat() { return is_whole() ? memory_.data<float>() : nullptr; }  // in table order
  size_t bytes() const { return memory_.bytes(); }

 private:
  const ParameterTable& table_;
  Gradients kind_;
  bool head_by_rows_;
  std::vector<Elements> order_;
  DeviceBuffer memory_;
  std::vector<float*> places_;  // by tensor
  Elements rows_;
};

}  // namespace holdfast::model

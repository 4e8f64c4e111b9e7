// The parameters as the passes use them: typed pointers per layer, made once from the table.
//
// Where activations are float32 the matrix products read the masters; otherwise they read copies cast to the activation
// type after every change (2 bytes a parameter). Only matrices that enter a product have such copies; the rest (wpe, LayerNorm,
// biases) is read as float32. The embedding reads the copy of wte, too. Where the masters are elsewhere, everything is a copy.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "model/device_buffer.h"
#include "model/parameter_table.h"

namespace holdfast::model {

// The memory that the passes read a range of the parameters from: a copy in the activations' type (`is_half`: 2 bytes an
// element), or float32 (4), which is a copy only where the masters are elsewhere. Device memory.
struct ComputeCopy {
  std::byte* data;
  size_t bytes;
  bool is_half;
};

struct ParameterViews {
  struct Tensor {
    const float* value;       // float32; null where passes read a copy of 16 bits, and the masters are elsewhere
    const kernels::Act* act;  // as the matrix products read it; null for vectors and wpe
    float* gradient;
  };
  struct Layer {
    Tensor ln_1_weight, ln_1_bias;            // (C), (C)
    Tensor attn_weight, attn_bias;            // (3C, C), (3C)
    Tensor attn_proj_weight, attn_proj_bias;  // (C, C), (C)
    Tensor ln_2_weight, ln_2_bias;            // (C), (C)
    Tensor fc_weight, fc_bias;                // (4C, C), (4C)
    Tensor mlp_proj_weight, mlp_proj_bias;    // (C, 4C), (C)
  };
  Tensor wte, wpe;  // (V, C), (T, C)
  std::vector<Layer> layers;
  Tensor ln_f_weight, ln_f_bias;  // (C), (C)
  Tensor head;                    // (V, C): wte, where that is tied to it

  // `masters`: flat, in table order; null: they are elsewhere. `gradients`: by tensor.
  // `by_layer`: copies of all even layers, which are alike, have the same memory, and those of all odd ones.
  ParameterViews(const ParameterTable& table, kernels::DeviceOps& ops, float* masters, std::span<float* const> gradients,
                 bool by_layer = false);
  void cast(kernels::DeviceOps& ops);  // brings the copies up to date with the masters, which are here
  // Of a range that lies in one tensor; and brings it up to date with its `masters`, wherever these are.
  ComputeCopy copy_of(Elements range) const;
  void cast(kernels::DeviceOps& ops, Elements range, const float* masters);
  size_t bytes() const { return memory_.bytes(); }  // of the copies

 private:
  struct Copy {
    Elements of;
    std::byte* to;
    bool is_half;
  };
  const Copy* copy_with(Elements range) const;  // null: its masters are what is read

  float* masters_;
  std::vector<Copy> copies_;  // ascending
  DeviceBuffer memory_;
};

}  // namespace holdfast::model

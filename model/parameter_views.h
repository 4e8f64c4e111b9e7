// The parameters as the passes use them: typed pointers per layer, made once from the table.
//
// Where activations are float32 the matrix products read the masters; otherwise they read copies cast to the activation
// type after every change (2 bytes a parameter). Only matrices that enter a product have copies: wpe has none.
#pragma once

#include <cstdint>
#include <vector>

#include "model/device_buffer.h"
#include "model/parameter_table.h"

namespace holdfast::model {

struct ParameterViews {
  struct Tensor {
    const float* value;       // float32 master
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

  ParameterViews(const ParameterTable& table, kernels::DeviceOps& ops, float* parameters, float* gradients);
  void cast(kernels::DeviceOps& ops);               // brings the copies up to date
  size_t bytes() const { return memory_.bytes(); }  // of the copies

 private:
  struct Copy {
    kernels::Act* to;
    const float* from;
    int64_t count;
  };
  std::vector<Copy> copies_;
  DeviceBuffer memory_;
};

}  // namespace holdfast::model

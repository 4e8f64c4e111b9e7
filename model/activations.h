// Where everything lies that a pass computes: one arena, planned when the model is built.
//
// Letters as in kernels/ops.h: B, T, N = B*T, C, NH, L layers; a = bytes of an activation (4 or 2).
//
// The parts of the arena, in bytes:
//   kept for the backward pass, per layer (Recompute::kNone):
//     residual_in, residual_mid   (N, C) float32 each      8 NC
//     qkv                         (N, 3C)                  3 NC a
//     attention                   (N, C)                     NC a
//     pre_gelu, gelu              (N, 4C) each             8 NC a
//     logsumexp                   (B, NH, T) float32       4 N NH
//   so 56 NC + 4 N NH a layer in float32, 32 NC + 4 N NH in bfloat16. GPT-2 Tiny at 4 x 512: 44.2 MB and 25.3 MB.
//   Under Recompute::kAttention qkv, attention and logsumexp lie in one place for all layers, which leaves 40 NC a layer in
//   float32 and 24 NC in bfloat16; under kBlock all but residual_in does, which leaves 4 NC.
//   once:
//     residual_final, dresidual   (N, C) float32 each      8 NC
//     normed, branch, dbranch     (N, C) each              3 NC a
//     wide                        (N, 4C)                  4 NC a
//     mean, rstd, losses          (N) float32 each        12 N
//     tokens, targets, token_runs   (N), (N), (3 N + 1) int32    20 N
//
// Not kept: the LayerNorms' outputs. They are computed again in the backward pass (reads 4 NC bytes, writes NC a: next
// to nothing beside the matrix products, and the same bits), which saves 2 NC a and two statistics a layer.
// Not kept twice: no gradient of an activation outlives the layer that uses it.
#pragma once

#include <cstdint>
#include <vector>

#include "model/device_buffer.h"
#include "model/parameter_table.h"
#include "model/recompute.h"

namespace holdfast::model {

struct Activations {
  struct Layer {
    float* residual_in;       // (N, C) the residual stream as it enters; what ln_1 normalises
    float* residual_mid;      // (N, C) after attention was added; what ln_2 normalises
    kernels::Act* qkv;        // (N, 3C)
    float* logsumexp;         // (B, NH, T)
    kernels::Act* attention;  // (N, C)
    kernels::Act* pre_gelu;   // (N, 4C)
    kernels::Act* gelu;       // (N, 4C)
  };
  std::vector<Layer> layers;
  float* residual_final;  // (N, C) after the last layer; what ln_f normalises
  float* dresidual;       // (N, C) gradient of the residual stream, from the head down to the encoder
  kernels::Act* normed;   // (N, C) output of the LayerNorm at hand
  kernels::Act* branch;   // (N, C) forward: what a branch adds to the residual stream. Backward: dresidual, cast
  kernels::Act* dbranch;  // (N, C) backward: the gradient on its way through a branch
  kernels::Act* wide;     // (N, 4C) backward: gradient of pre_gelu; then its first (N, 3C), of qkv
  float* token_gradient;  // (R, C) of the R distinct tokens, when the layers are done: at most N, in the memory of `wide`
  float* mean;            // (N) of the LayerNorm at hand
  float* rstd;            // (N)
  float* losses;          // (N)
  int32_t* tokens;        // (B, T)
  int32_t* token_runs;    // (3 N + 1) of DistinctTokens: ids, starts, positions
  int32_t* targets;       // (B, T)

  Activations(const Gpt2Config& config, kernels::DeviceOps& ops, int64_t batch_size, Recompute recompute);
  size_t bytes() const { return arena_.bytes(); }
  // Size of an arena of these settings, in bytes; `act_bytes` is that of an activation.
  static size_t bytes_needed(const Gpt2Config& config, size_t act_bytes, int64_t batch_size, Recompute recompute);

 private:
  explicit Activations(const Gpt2Config& config) : layers(static_cast<size_t>(config.n_layer)) {}

  DeviceBuffer arena_;
};

}  // namespace holdfast::model

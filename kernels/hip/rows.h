// Kernels over rows of channels: embeddings and LayerNorm. The formulas are those of kernels/ref, the letters kernels/ops.h's.
//
// LayerNorm has a group of 32 lanes to a row; each lane has every 32nd channel. Limits: none.
#pragma once

#include "kernels/hip/sums.h"

namespace holdfast::kernels::hip {

inline constexpr int kRowThreads = 256;
inline constexpr int kRowsOfBlock = kRowThreads / kLanes;

template <typename Real>
__global__ void encoder_forward(Real* out, const int32_t* tokens, const Real* wte, const Real* wpe, int64_t count, int64_t T,
                                int64_t C) {
  const auto [first, step] = own_elements();
  for (int64_t i = first; i < count; i += step) {
    const int64_t n = i / C, c = i % C;
    out[i] = wte[tokens[n] * C + c] + wpe[n % T * C + c];
  }
}

// count = T * C
template <typename Real>
__global__ void encoder_backward_positions(Real* dwpe, const Real* dout, int64_t B, int64_t count) {
  const auto [first, step] = own_elements();
  for (int64_t i = first; i < count; i += step) {
    Real sum = 0;
    for (int64_t b = 0; b < B; ++b) sum += dout[b * count + i];
    dwpe[i] = sum;
  }
}

// A block a token and kRowThreads channels. The first token of a row adds all of that row's, in their order; the others' blocks
// end at once.
template <typename Real>
__global__ void encoder_backward_tokens(Real* dwte, const Real* dout, const int32_t* rows, int64_t N, int64_t C) {
  HOLDFAST_SHARED(int[kRowThreads], same);
  HOLDFAST_SHARED(int[2], any);  // whether a chunk of tokens has one of the row; of this chunk and of the next
  const int thread = static_cast<int>(threadIdx.x);
  const int64_t channel_blocks = (C + kRowThreads - 1) / kRowThreads;
  const int64_t own = static_cast<int64_t>(blockIdx.x) / channel_blocks;
  const int64_t c = static_cast<int64_t>(blockIdx.x) % channel_blocks * kRowThreads + thread;
  const int32_t row = rows[own];
  int before = 0;
  for (int64_t n = thread; n < own; n += kRowThreads) before |= static_cast<int>(rows[n] == row);
  same[thread] = before;
  barrier();
  for (int i = 0; i < kRowThreads; ++i) before |= same[i];
  if (before != 0) return;  // all threads of the block alike
  if (thread < 2) any[thread] = 0;
  Real sum = c < C ? dwte[row * C + c] : 0.0F;
  int turn = 0;
  for (int64_t begin = own; begin < N; begin += kRowThreads, turn ^= 1) {
    barrier();
    const bool is_same = begin + thread < N && rows[begin + thread] == row;
    same[thread] = static_cast<int>(is_same);
    if (is_same) any[turn] = 1;
    if (thread == 0) any[turn ^ 1] = 0;
    barrier();
    if (any[turn] == 0) continue;
    for (int i = 0; i < kRowThreads; ++i) {
      if (same[i] != 0 && c < C) sum += dout[(begin + i) * C + c];
    }
  }
  if (c < C) dwte[row * C + c] = sum;
}

// x null: residual_in is normalised.
template <typename Element>
__global__ void layernorm_forward(Element* out, float* residual_out, float* mean, float* rstd, const float* residual_in,
                                  const Element* x, const float* weight, const float* bias, int64_t N, int64_t C) {
  const int64_t n = static_cast<int64_t>(blockIdx.x) * kRowsOfBlock + static_cast<int64_t>(threadIdx.x) / kLanes;
  if (n >= N) return;  // whole groups
  const float* row = residual_in + n * C;
  float sum = 0;
  for (int64_t c = lane(); c < C; c += kLanes) {
    float r = row[c];
    if (x != nullptr) residual_out[n * C + c] = r += widen(x[n * C + c]);
    sum += r;
  }
  if (x != nullptr) row = residual_out + n * C;  // each lane reads what it has written itself
  const float m = sum_of_lanes(sum) / static_cast<float>(C);
  float squares = 0;
  for (int64_t c = lane(); c < C; c += kLanes) squares += (row[c] - m) * (row[c] - m);
  const float s = 1.0F / sqrtf(sum_of_lanes(squares) / static_cast<float>(C) + 1e-5F);
  for (int64_t c = lane(); c < C; c += kLanes) out[n * C + c] = narrow<Element>((row[c] - m) * s * weight[c] + bias[c]);
  if (lane() == 0) {
    mean[n] = m;
    rstd[n] = s;
  }
}

// dresidual and dx. dx may be null.
template <typename Element>
__global__ void layernorm_backward_rows(float* dresidual, Element* dx, const Element* dout, const float* residual,
                                        const float* weight, const float* mean, const float* rstd, int64_t N, int64_t C) {
  const int64_t n = static_cast<int64_t>(blockIdx.x) * kRowsOfBlock + static_cast<int64_t>(threadIdx.x) / kLanes;
  if (n >= N) return;
  const float m = mean[n], s = rstd[n];
  float average_g = 0, average_gh = 0;
  for (int64_t c = lane(); c < C; c += kLanes) {
    const float g = widen(dout[n * C + c]) * weight[c];
    average_g += g;
    average_gh += g * (residual[n * C + c] - m) * s;
  }
  average_g = sum_of_lanes(average_g) / static_cast<float>(C);
  average_gh = sum_of_lanes(average_gh) / static_cast<float>(C);
  for (int64_t c = lane(); c < C; c += kLanes) {
    const float g = widen(dout[n * C + c]) * weight[c];
    const float h = (residual[n * C + c] - m) * s;
    const float d = dresidual[n * C + c] + s * (g - average_g - h * average_gh);
    dresidual[n * C + c] = d;
    if (dx != nullptr) dx[n * C + c] = narrow<Element>(d);
  }
}

// Chunks of rows of dweight and dbias (ceil(N / kChunkRows), C) each, for sum_of_chunks. Blocks as column_chunks.
template <typename Element>
__global__ void layernorm_backward_chunks(float* dweight, float* dbias, const Element* dout, const float* residual,
                                          const float* mean, const float* rstd, int64_t N, int64_t C) {
  const int64_t column_blocks = (C + kSumThreads - 1) / kSumThreads;
  const int64_t chunk = static_cast<int64_t>(blockIdx.x) / column_blocks;
  const int64_t c = static_cast<int64_t>(blockIdx.x) % column_blocks * kSumThreads + static_cast<int64_t>(threadIdx.x);
  if (c >= C) return;
  const int64_t begin = chunk * kChunkRows, end = begin + kChunkRows < N ? begin + kChunkRows : N;
  float weights = 0, biases = 0;
  for (int64_t n = begin; n < end; ++n) {
    const float d = widen(dout[n * C + c]);
    weights += d * (residual[n * C + c] - mean[n]) * rstd[n];
    biases += d;
  }
  dweight[chunk * C + c] = weights;
  dbias[chunk * C + c] = biases;
}

}  // namespace holdfast::kernels::hip

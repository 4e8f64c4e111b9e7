// Kernels over rows of channels: embeddings and LayerNorm. The formulas are those of kernels/ref, the letters kernels/ops.h's.
//
// LayerNorm has a group of 32 lanes to a row. Where rows are whole fours of channels and not too long, each lane has every 32nd
// four of them, in registers, and takes a few rows one after the other, with the weights that it has; else it has every 32nd
// channel, and reads it again when it is needed again. Limits: none.
#pragma once

#include "kernels/hip/sums.h"

namespace holdfast::kernels::hip {

inline constexpr int kRowThreads = 256;

template <typename Element>
__global__ void encoder_forward(float* out, const int32_t* tokens, const Element* wte, const float* wpe, int64_t count,
                                int64_t T, int64_t C) {
  const auto [first, step] = own_elements();
  for (int64_t i = first; i < count; i += step) {
    const int64_t n = i / C, c = i % C;
    out[i] = widen(wte[tokens[n] * C + c]) + wpe[n % T * C + c];
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

// A block a run of equal tokens and kRowThreads channels.
template <typename Real>
__global__ void encoder_backward_tokens(Real* dwte, const Real* dout, TokenRuns runs, int64_t C) {
  const int64_t channel_blocks = (C + kRowThreads - 1) / kRowThreads;
  const int64_t r = static_cast<int64_t>(blockIdx.x) / channel_blocks;
  const int64_t c = static_cast<int64_t>(blockIdx.x) % channel_blocks * kRowThreads + static_cast<int64_t>(threadIdx.x);
  if (c >= C) return;
  Real* const to = dwte + (runs.ids == nullptr ? r : runs.ids[r]) * C + c;
  const int32_t end = runs.starts[r + 1];
  Real sum = *to;
  HOLDFAST_UNROLL_BY_8  // loads of a token that stands everywhere are many, and none waits for the one before
      for (int32_t i = runs.starts[r]; i < end; ++i) sum += dout[runs.positions[i] * C + c];
  *to = sum;
}

// A lane's channels of one row, in registers: Fours times four.
template <int Fours>
struct RowOfLane {
  float x[4 * Fours];
  // Calls what(number of the first value, its channel) for each four that the row has.
  template <typename What>
  __device__ static void each(int64_t C, What what) {
    HOLDFAST_UNROLL
    for (int i = 0; i < Fours; ++i) {
      const int64_t c = 4 * (lane() + kLanes * i);
      if (c < C) what(4 * i, c);
    }
  }
};

// Whether rows of C channels can be in registers, and how many fours a lane then has: the smallest of these that is enough.
inline constexpr int kFoursOfRow[] = {3, 6, 8};  // C up to 384, 768, 1024: more registers there are not
inline int fours_of_row(int64_t C) {
  for (const int fours : kFoursOfRow) {
    if (C % 4 == 0 && C <= 4 * kLanes * fours) return fours;
  }
  return 0;
}

inline constexpr int kGroupsOfBlock = kRowThreads / kLanes;
template <int Fours>
inline constexpr int rows_of_group = Fours > 0 ? 4 : 1;
template <int Fours>
inline constexpr int rows_of_block = kGroupsOfBlock* rows_of_group<Fours>;

// Calls what(n) for each row of this group of lanes.
template <int Fours, typename What>
__device__ inline void each_row_of_group(int64_t N, What what) {
  const int64_t first = static_cast<int64_t>(blockIdx.x) * rows_of_block<Fours> + static_cast<int64_t>(threadIdx.x) / kLanes;
  for (int i = 0; i < rows_of_group<Fours>; ++i) {
    const int64_t n = first + i * kGroupsOfBlock;
    if (n < N) what(n);  // whole groups
  }
}

// The values of a vector (C) at this lane's channels.
template <int Fours>
__device__ inline RowOfLane<Fours> of_lane(const float* x, int64_t C) {
  RowOfLane<Fours> values;
  values.each(C, [&](int i, int64_t c) {
    const Four<float> four = four_at(x + c);
    HOLDFAST_UNROLL
    for (int k = 0; k < 4; ++k) values.x[i + k] = four.x[k];
  });
  return values;
}

// x null: residual_in is normalised. Fours as fours_of_row says. Blocks: rows by rows_of_block.
template <typename Element, int Fours>
__global__ void __launch_bounds__(kRowThreads)
    layernorm_forward(Element* out, float* residual_out, float* mean, float* rstd, const float* residual_in, const Element* x,
                      const float* weight, const float* bias, int64_t N, int64_t C) {
  const auto store_statistics = [&](int64_t n, float m, float s) {
    if (lane() != 0) return;
    mean[n] = m;
    rstd[n] = s;
  };
  if constexpr (Fours > 0) {
    const auto weights = of_lane<Fours>(weight, C), biases = of_lane<Fours>(bias, C);
    each_row_of_group<Fours>(N, [&](int64_t n) {
      RowOfLane<Fours> row;
      float sum = 0, squares = 0;
      row.each(C, [&](int i, int64_t c) {
        Four<float> r = four_at(residual_in + n * C + c);
        if (x != nullptr) {
          const Four<Element> added = four_at(x + n * C + c);
          HOLDFAST_UNROLL
          for (int k = 0; k < 4; ++k) r.x[k] += widen(added.x[k]);
          store_four(residual_out + n * C + c, r);
        }
        HOLDFAST_UNROLL
        for (int k = 0; k < 4; ++k) sum += row.x[i + k] = r.x[k];
      });
      const float m = sum_of_lanes(sum) / static_cast<float>(C);
      row.each(C, [&](int i, int64_t) {
        HOLDFAST_UNROLL
        for (int k = 0; k < 4; ++k) squares += (row.x[i + k] - m) * (row.x[i + k] - m);
      });
      const float s = 1.0F / sqrtf(sum_of_lanes(squares) / static_cast<float>(C) + 1e-5F);
      row.each(C, [&](int i, int64_t c) {
        Four<Element> to;
        HOLDFAST_UNROLL
        for (int k = 0; k < 4; ++k) to.x[k] = narrow<Element>((row.x[i + k] - m) * s * weights.x[i + k] + biases.x[i + k]);
        store_four(out + n * C + c, to);
      });
      store_statistics(n, m, s);
    });
  } else {
    each_row_of_group<0>(N, [&](int64_t n) {
      const float* const in = residual_in + n * C;
      const float* row = x != nullptr ? residual_out + n * C : in;  // each lane reads what it has written itself
      float sum = 0, squares = 0;
      for (int64_t c = lane(); c < C; c += kLanes) {
        float r = in[c];
        if (x != nullptr) residual_out[n * C + c] = r += widen(x[n * C + c]);
        sum += r;
      }
      const float m = sum_of_lanes(sum) / static_cast<float>(C);
      for (int64_t c = lane(); c < C; c += kLanes) squares += (row[c] - m) * (row[c] - m);
      const float s = 1.0F / sqrtf(sum_of_lanes(squares) / static_cast<float>(C) + 1e-5F);
      for (int64_t c = lane(); c < C; c += kLanes) out[n * C + c] = narrow<Element>((row[c] - m) * s * weight[c] + bias[c]);
      store_statistics(n, m, s);
    });
  }
}

// to (C) = the sums of what the block's groups have of each channel, in the groups' order. `shared` has place for all of it.
template <int Fours>
__device__ inline void sum_of_groups(float* to, const RowOfLane<Fours>& own, float* shared, int64_t C) {
  constexpr int kStride = 4 * kLanes * Fours;
  barrier();  // the last call's are read
  own.each(C, [&](int i, int64_t c) {
    HOLDFAST_UNROLL
    for (int k = 0; k < 4; ++k) shared[static_cast<int64_t>(threadIdx.x) / kLanes * kStride + c + k] = own.x[i + k];
  });
  barrier();
  for (auto c = static_cast<int64_t>(threadIdx.x); c < C; c += kRowThreads) {
    float sum = shared[c];
    for (int group = 1; group < kGroupsOfBlock; ++group) sum += shared[group * kStride + c];
    to[c] = sum;
  }
}

// dresidual and dx. dx may be null. With g = dout * weight and h = (residual - mean) * rstd. Where rows are in registers, also
// this block's chunk of dweight and dbias: chunks (blocks, 2 C) for sum_of_chunks. Blocks: rows by rows_of_block.
template <typename Element, int Fours>
__global__ void __launch_bounds__(kRowThreads)
    layernorm_backward_rows(float* dresidual, Element* dx, float* chunks, const Element* dout, const float* residual,
                            const float* weight, const float* mean, const float* rstd, int64_t N, int64_t C) {
  if constexpr (Fours > 0) {
    HOLDFAST_SHARED(float[kGroupsOfBlock * 4 * kLanes * Fours], shared);
    const auto weights = of_lane<Fours>(weight, C);
    RowOfLane<Fours> dweight = {}, dbias = {};
    each_row_of_group<Fours>(N, [&](int64_t n) {
      const float m = mean[n], s = rstd[n];
      float average_g = 0, average_gh = 0;
      RowOfLane<Fours> g, h;
      g.each(C, [&](int i, int64_t c) {
        const Four<Element> d = four_at(dout + n * C + c);
        const Four<float> r = four_at(residual + n * C + c);
        HOLDFAST_UNROLL
        for (int k = 0; k < 4; ++k) {
          g.x[i + k] = widen(d.x[k]) * weights.x[i + k];
          h.x[i + k] = (r.x[k] - m) * s;
          dweight.x[i + k] += widen(d.x[k]) * h.x[i + k];
          dbias.x[i + k] += widen(d.x[k]);
          average_g += g.x[i + k];
          average_gh += g.x[i + k] * h.x[i + k];
        }
      });
      average_g = sum_of_lanes(average_g) / static_cast<float>(C);
      average_gh = sum_of_lanes(average_gh) / static_cast<float>(C);
      g.each(C, [&](int i, int64_t c) {
        Four<float> d = four_at(dresidual + n * C + c);
        Four<Element> narrowed;
        HOLDFAST_UNROLL
        for (int k = 0; k < 4; ++k) {
          d.x[k] += s * (g.x[i + k] - average_g - h.x[i + k] * average_gh);
          narrowed.x[k] = narrow<Element>(d.x[k]);
        }
        store_four(dresidual + n * C + c, d);
        if (dx != nullptr) store_four(dx + n * C + c, narrowed);
      });
    });
    float* const chunk = chunks + static_cast<int64_t>(blockIdx.x) * 2 * C;
    sum_of_groups<Fours>(chunk, dweight, shared, C);
    sum_of_groups<Fours>(chunk + C, dbias, shared, C);
  } else {
    each_row_of_group<0>(N, [&](int64_t n) {
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
    });
  }
}

// Chunks of dweight and dbias (ceil(N / kChunkRows), 2 C), where rows are not in registers. Blocks as column_chunks.
template <typename Element>
__global__ void layernorm_backward_chunks(float* chunks, const Element* dout, const float* residual, const float* mean,
                                          const float* rstd, int64_t N, int64_t C) {
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
  chunks[2 * chunk * C + c] = weights;
  chunks[(2 * chunk + 1) * C + c] = biases;
}

}  // namespace holdfast::kernels::hip

// Rows of int8 and their products (WeightForm::kInt8 in kernels/decode_ops.h). Sums are whole numbers, so every implementation
// gives the same. Like lanes.h, this header includes no templates of the standard library.
#pragma once

#include <cstdint>

namespace holdfast::kernels::cpu {

inline constexpr int64_t kInt8Step = 64;  // rows have a multiple of so many numbers, zeros at the end

struct Int8Loops {
  // q (a multiple of kInt8Step) of x (count), with FloatLoops::abs_max of x; returns the row's scale.
  float (*quantize)(int8_t* q, const float* x, int64_t count, float most);
  int32_t (*sum)(const int8_t* q, int64_t depth);
  // c (rows, columns), by rows of c_width = a (rows, depth) * w (columns, depth)^T. sums (columns): those of the rows of w.
  void (*multiply)(int32_t* c, int64_t c_width, const int8_t* a, int64_t rows, const int8_t* w, const int32_t* sums,
                   int64_t columns, int64_t depth);
  // y[i] = float(c[i]) * (scale * scales[i])
  void (*to_floats)(float* y, const int32_t* c, float scale, const float* scales, int64_t count);
};

// The same `multiply` by dot products of four. To be called only on a machine that has AVX512_VNNI.
void multiply_int8_vnni(int32_t* c, int64_t c_width, const int8_t* a, int64_t rows, const int8_t* w, const int32_t* sums,
                        int64_t columns, int64_t depth);

}  // namespace holdfast::kernels::cpu

// Rows of int8. Compiled once per instruction set (see fill.h).
#include "kernels/cpu/vector/int8.h"

#include "kernels/cpu/vector/fill.h"
#include "kernels/cpu/vector/int8_blocks.h"
#include "kernels/cpu/vector/lanes.h"

namespace holdfast::kernels::cpu::HOLDFAST_VECTOR_ISA {
namespace {

constexpr float kMost = 127.0F;
constexpr float kLeast = 0x1p-100F;  // kLeastInt8 of decode_ops.h, which has templates

#if defined(__AVX512F__)

// Pairs of int16 are multiplied and added: exact.
struct DotsOfTwo {
  using Sum = __m512i;
  using Operand = __m512i;
  static constexpr int64_t kRows = 4, kBytes = 32;
  static Sum zero() { return _mm512_setzero_si512(); }
  static Operand load_w(const int8_t* at) {
    return _mm512_cvtepi8_epi16(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(at)));
  }
  static Operand load_a(const int8_t* at) { return load_w(at); }
  static Sum add(Sum sum, Operand a, Operand w) { return _mm512_add_epi32(sum, _mm512_madd_epi16(a, w)); }
  static int32_t total(Sum sum) { return _mm512_reduce_add_epi32(sum); }
  static int32_t beyond(int32_t) { return 0; }
};

inline void store_int8(int8_t* to, Ints x) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(to), _mm512_cvtsepi32_epi8(x));
}

#else

struct DotsOfTwo {
  using Sum = __m256i;
  using Operand = __m256i;
  static constexpr int64_t kRows = 2, kBytes = 16;
  static Sum zero() { return _mm256_setzero_si256(); }
  static Operand load_w(const int8_t* at) {
    return _mm256_cvtepi8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(at)));
  }
  static Operand load_a(const int8_t* at) { return load_w(at); }
  static Sum add(Sum sum, Operand a, Operand w) { return _mm256_add_epi32(sum, _mm256_madd_epi16(a, w)); }
  static int32_t total(Sum sum) {
    __m128i half = _mm_add_epi32(_mm256_castsi256_si128(sum), _mm256_extracti128_si256(sum, 1));
    half = _mm_add_epi32(half, _mm_shuffle_epi32(half, 0x4e));
    half = _mm_add_epi32(half, _mm_shuffle_epi32(half, 0xb1));
    return _mm_cvtsi128_si32(half);
  }
  static int32_t beyond(int32_t) { return 0; }
};

inline void store_int8(int8_t* to, Ints x) {
  const __m128i words = _mm_packs_epi32(_mm256_castsi256_si128(x), _mm256_extracti128_si256(x, 1));
  _mm_storel_epi64(reinterpret_cast<__m128i*>(to), _mm_packs_epi16(words, words));
}

#endif

float quantize(int8_t* q, const float* x, int64_t count, float most) {
  const int64_t depth = (count + kInt8Step - 1) / kInt8Step * kInt8Step;
  const bool is_finite = most - most == 0;
  if (!is_finite || most < kLeast) {
    __builtin_memset(q, 0, static_cast<size_t>(depth));
    return is_finite ? 0.0F : most - most;
  }
  const Floats factor = broadcast(kMost / most);
  int64_t i = 0;
  for (; i + kWidth <= count; i += kWidth) store_int8(q + i, nearest_int(load(x + i, Whole{}) * factor));
  if (i < count) {
    store_int8(q + i, nearest_int(load(x + i, Part(count - i)) * factor));
    i += kWidth;
  }
  for (; i < depth; i += kWidth) store_int8(q + i, broadcast_int(0));
  return most / kMost;
}

int32_t sum(const int8_t* q, int64_t depth) {
  int32_t total = 0;
  for (int64_t i = 0; i < depth; ++i) total += q[i];
  return total;
}

void to_floats(float* y, const int32_t* c, float scale, const float* scales, int64_t count) {
  for (int64_t i = 0; i < count; ++i) y[i] = static_cast<float>(c[i]) * (scale * scales[i]);
}

}  // namespace

void fill_int8(VectorTable& table) {
  table.int8 = {quantize, sum, Int8Blocks<DotsOfTwo>::multiply, to_floats};
}

}  // namespace holdfast::kernels::cpu::HOLDFAST_VECTOR_ISA

// One vector of floats, 16 wide with AVX-512 and 8 wide with AVX2: the few operations that the loops beside it need.
//
// Each .cpp of this folder is compiled once per instruction set, into its own namespace. So that the linker can never put
// code of one set into the other, everything here and there has internal linkage and nothing includes templates of the
// standard library (an inline function compiled for AVX-512 could otherwise be the copy that an AVX2 machine runs).
// Rounding: -ffp-contract=off holds, so a * b + c is two roundings and fma(a, b, c) is one, as written.
// Subnormal numbers are neither flushed nor special: no code of ours changes the control register.
#pragma once

#include <immintrin.h>

#include <cstdint>

#if defined(_GLIBCXX_STRING) || defined(_GLIBCXX_MEMORY) || defined(_GLIBCXX_VECTOR) || defined(_GLIBCXX_ALGORITHM)
#error "an include of a vector source brings templates of the standard library along: see above"
#endif

namespace holdfast::kernels::cpu {
namespace {

struct Bf16 {  // an element in memory; arithmetic is in float
  uint16_t bits;
};
struct Fp16 {  // the same; beyond 65504 it is infinite
  uint16_t bits;
};
constexpr int kToNearestEven = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;

#if defined(__AVX512F__)

constexpr int64_t kWidth = 16;
using Floats = __m512;
using Ints = __m512i;

inline Floats broadcast(float x) {
  return _mm512_set1_ps(x);
}
inline Ints broadcast_int(int32_t x) {
  return _mm512_set1_epi32(x);
}
inline Floats fma(Floats a, Floats b, Floats c) {
  return _mm512_fmadd_ps(a, b, c);
}
inline Floats larger(Floats a, Floats b) {
  return _mm512_max_ps(a, b);
}  // b where either is NaN
inline Floats smaller(Floats a, Floats b) {
  return _mm512_min_ps(a, b);
}  // b where either is NaN
inline Ints larger_int(Ints a, Ints b) {
  return _mm512_max_epi32(a, b);
}
inline Floats square_root(Floats a) {
  return _mm512_sqrt_ps(a);
}
inline Ints bits_of(Floats a) {
  return _mm512_castps_si512(a);
}
inline Floats floats_of(Ints a) {
  return _mm512_castsi512_ps(a);
}
inline Ints add_int(Ints a, Ints b) {
  return _mm512_add_epi32(a, b);
}
inline Ints and_int(Ints a, Ints b) {
  return _mm512_and_si512(a, b);
}
inline Ints nearest_int(Floats a) {
  return _mm512_cvtps_epi32(a);
}  // ties to even
inline Floats to_floats(Ints a) {
  return _mm512_cvtepi32_ps(a);
}
inline Ints exponent_bits(Ints n) {
  return _mm512_slli_epi32(n, 23);
}
inline Ints without_four_bits(Ints a) {
  return _mm512_srli_epi32(a, 4);
}
inline Floats number_of_four_bits(Ints a) {
  return _mm512_permutexvar_ps(a, _mm512_setr_ps(-8, -7, -6, -5, -4, -3, -2, -1, 0, 1, 2, 3, 4, 5, 6, 7));
}  // the lower ones less 8
inline Ints upper_half(Ints a) {
  return _mm512_srli_epi32(a, 16);
}
inline Ints load_bytes(const uint8_t* p) {
  return _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
}

struct Whole {};
struct Part {  // the last, incomplete vector of a row
  __mmask16 mask;
  explicit Part(int64_t count) : mask(static_cast<__mmask16>((1u << count) - 1u)) {}
};
inline Floats load(const float* p, Whole) {
  return _mm512_loadu_ps(p);
}
inline Floats load(const float* p, Part part) {
  return _mm512_maskz_loadu_ps(part.mask, p);
}
inline void store(float* p, Floats a, Whole) {
  _mm512_storeu_ps(p, a);
}
inline void store(float* p, Floats a, Part part) {
  _mm512_mask_storeu_ps(p, part.mask, a);
}
inline Ints load(const int32_t* p, Whole) {
  return _mm512_loadu_si512(p);
}
inline Ints load(const int32_t* p, Part part) {
  return _mm512_maskz_loadu_epi32(part.mask, p);
}
inline void store(int32_t* p, Ints a, Whole) {
  _mm512_storeu_si512(p, a);
}
inline void store(int32_t* p, Ints a, Part part) {
  _mm512_mask_storeu_epi32(p, part.mask, a);
}
// int16 in memory, int32 in lanes. The stored values fit.
inline Ints load(const int16_t* p, Whole) {
  return _mm512_cvtepi16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
}
inline Ints load(const int16_t* p, Part part) {
  return _mm512_cvtepi16_epi32(_mm256_maskz_loadu_epi16(part.mask, p));
}
inline void store(int16_t* p, Ints a, Whole) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm512_cvtepi32_epi16(a));
}
inline void store(int16_t* p, Ints a, Part part) {
  _mm256_mask_storeu_epi16(p, part.mask, _mm512_cvtepi32_epi16(a));
}
inline Floats keep(Floats a, Floats, Whole) {
  return a;
}
inline Floats keep(Floats a, Floats otherwise, Part part) {
  return _mm512_mask_mov_ps(otherwise, part.mask, a);
}

inline Floats widen(__m256i a) {
  return floats_of(_mm512_slli_epi32(_mm512_cvtepu16_epi32(a), 16));
}
inline __m256i narrow(Floats a) {
  const Ints word = bits_of(a);
  const Ints odd = and_int(_mm512_srli_epi32(word, 16), broadcast_int(1));
  const Ints rounded = add_int(word, add_int(odd, broadcast_int(0x7fff)));
  const __mmask16 nan = _mm512_cmp_ps_mask(a, a, _CMP_UNORD_Q);
  const Ints quiet = _mm512_or_si512(word, broadcast_int(0x400000));
  return _mm512_cvtepi32_epi16(_mm512_srli_epi32(_mm512_mask_mov_epi32(rounded, nan, quiet), 16));
}
inline Floats rounded(Floats a, Bf16) {
  return widen(narrow(a));
}
inline Floats rounded(Floats a, Fp16) {
  return _mm512_cvtph_ps(_mm512_cvtps_ph(a, kToNearestEven));
}
inline Floats load(const Bf16* p, Whole) {
  return widen(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
}
inline Floats load(const Bf16* p, Part part) {
  return widen(_mm256_maskz_loadu_epi16(part.mask, p));
}
inline void store(Bf16* p, Floats a, Whole) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), narrow(a));
}
inline void store(Bf16* p, Floats a, Part part) {
  _mm256_mask_storeu_epi16(p, part.mask, narrow(a));
}
inline Floats load(const Fp16* p, Whole) {
  return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
}
inline Floats load(const Fp16* p, Part part) {
  return _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(part.mask, p));
}
inline void store(Fp16* p, Floats a, Whole) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm512_cvtps_ph(a, kToNearestEven));
}
inline void store(Fp16* p, Floats a, Part part) {
  _mm256_mask_storeu_epi16(p, part.mask, _mm512_cvtps_ph(a, kToNearestEven));
}

struct Doubles {  // as many doubles as Floats has floats
  __m512d low, high;
};
inline Doubles to_doubles(Floats a) {
  return {_mm512_cvtps_pd(_mm512_castps512_ps256(a)), _mm512_cvtps_pd(_mm512_extractf32x8_ps(a, 1))};
}
inline Doubles zero_doubles() {
  return {_mm512_setzero_pd(), _mm512_setzero_pd()};
}
inline double sum_of_lanes(Doubles a) {
  double lane[8];
  _mm512_storeu_pd(lane, a.low + a.high);
  return ((lane[0] + lane[4]) + (lane[1] + lane[5])) + ((lane[2] + lane[6]) + (lane[3] + lane[7]));
}

#else

constexpr int64_t kWidth = 8;
using Floats = __m256;
using Ints = __m256i;

inline Floats broadcast(float x) {
  return _mm256_set1_ps(x);
}
inline Ints broadcast_int(int32_t x) {
  return _mm256_set1_epi32(x);
}
inline Floats fma(Floats a, Floats b, Floats c) {
  return _mm256_fmadd_ps(a, b, c);
}
inline Floats larger(Floats a, Floats b) {
  return _mm256_max_ps(a, b);
}
inline Floats smaller(Floats a, Floats b) {
  return _mm256_min_ps(a, b);
}
inline Ints larger_int(Ints a, Ints b) {
  return _mm256_max_epi32(a, b);
}
inline Floats square_root(Floats a) {
  return _mm256_sqrt_ps(a);
}
inline Ints bits_of(Floats a) {
  return _mm256_castps_si256(a);
}
inline Floats floats_of(Ints a) {
  return _mm256_castsi256_ps(a);
}
inline Ints add_int(Ints a, Ints b) {
  return _mm256_add_epi32(a, b);
}
inline Ints and_int(Ints a, Ints b) {
  return _mm256_and_si256(a, b);
}
inline Ints nearest_int(Floats a) {
  return _mm256_cvtps_epi32(a);
}
inline Floats to_floats(Ints a) {
  return _mm256_cvtepi32_ps(a);
}
inline Ints exponent_bits(Ints n) {
  return _mm256_slli_epi32(n, 23);
}
inline Ints without_four_bits(Ints a) {
  return _mm256_srli_epi32(a, 4);
}
inline Floats number_of_four_bits(Ints a) {
  return to_floats(add_int(and_int(a, broadcast_int(15)), broadcast_int(-8)));
}
inline Ints upper_half(Ints a) {
  return _mm256_srli_epi32(a, 16);
}
inline Ints load_bytes(const uint8_t* p) {
  return _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p)));
}

struct Whole {};
struct Part {
  Ints mask;
  int64_t count;
  explicit Part(int64_t lanes) : count(lanes) {
    mask = _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(lanes)), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
  }
};
inline Floats load(const float* p, Whole) {
  return _mm256_loadu_ps(p);
}
inline Floats load(const float* p, Part part) {
  return _mm256_maskload_ps(p, part.mask);
}
inline void store(float* p, Floats a, Whole) {
  _mm256_storeu_ps(p, a);
}
inline void store(float* p, Floats a, Part part) {
  _mm256_maskstore_ps(p, part.mask, a);
}
inline Ints load(const int32_t* p, Whole) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
}
inline Ints load(const int32_t* p, Part part) {
  return _mm256_maskload_epi32(p, part.mask);
}
inline void store(int32_t* p, Ints a, Whole) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), a);
}
inline void store(int32_t* p, Ints a, Part part) {
  _mm256_maskstore_epi32(p, part.mask, a);
}
// int16 in memory, int32 in lanes. The stored values fit.
inline Ints load(const int16_t* p, Whole) {
  return _mm256_cvtepi16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
}
inline Ints load(const int16_t* p, Part part) {
  int16_t lane[8] = {};
  __builtin_memcpy(lane, p, static_cast<size_t>(part.count) * 2);
  return load(lane, Whole{});
}
inline void store(int16_t* p, Ints a, Whole) {
  const __m128i halves = _mm_packs_epi32(_mm256_castsi256_si128(a), _mm256_extracti128_si256(a, 1));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), halves);
}
inline void store(int16_t* p, Ints a, Part part) {
  int16_t lane[8];
  store(lane, a, Whole{});
  __builtin_memcpy(p, lane, static_cast<size_t>(part.count) * 2);
}
inline Floats keep(Floats a, Floats, Whole) {
  return a;
}
inline Floats keep(Floats a, Floats otherwise, Part part) {
  return _mm256_blendv_ps(otherwise, a, _mm256_castsi256_ps(part.mask));
}

inline Floats widen(__m128i a) {
  return floats_of(_mm256_slli_epi32(_mm256_cvtepu16_epi32(a), 16));
}
inline __m128i narrow(Floats a) {
  const Ints word = bits_of(a);
  const Ints odd = and_int(_mm256_srli_epi32(word, 16), broadcast_int(1));
  const Ints rounded = add_int(word, add_int(odd, broadcast_int(0x7fff)));
  const Ints nan = _mm256_castps_si256(_mm256_cmp_ps(a, a, _CMP_UNORD_Q));
  const Ints quiet = _mm256_or_si256(word, broadcast_int(0x400000));
  const Ints upper = _mm256_srli_epi32(_mm256_blendv_epi8(rounded, quiet, nan), 16);
  return _mm_packus_epi32(_mm256_castsi256_si128(upper), _mm256_extracti128_si256(upper, 1));
}
inline Floats rounded(Floats a, Bf16) {
  return widen(narrow(a));
}
inline Floats rounded(Floats a, Fp16) {
  return _mm256_cvtph_ps(_mm256_cvtps_ph(a, kToNearestEven));
}
inline Floats load(const Bf16* p, Whole) {
  return widen(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
}
inline Floats load(const Bf16* p, Part part) {
  uint16_t lane[8] = {};
  __builtin_memcpy(lane, p, static_cast<size_t>(part.count) * 2);
  return widen(_mm_loadu_si128(reinterpret_cast<const __m128i*>(lane)));
}
inline void store(Bf16* p, Floats a, Whole) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), narrow(a));
}
inline void store(Bf16* p, Floats a, Part part) {
  uint16_t lane[8];
  _mm_storeu_si128(reinterpret_cast<__m128i*>(lane), narrow(a));
  __builtin_memcpy(p, lane, static_cast<size_t>(part.count) * 2);
}
inline Floats load(const Fp16* p, Whole) {
  return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
}
inline Floats load(const Fp16* p, Part part) {
  Fp16 lane[8] = {};
  __builtin_memcpy(lane, p, static_cast<size_t>(part.count) * 2);
  return load(lane, Whole{});
}
inline void store(Fp16* p, Floats a, Whole) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm256_cvtps_ph(a, kToNearestEven));
}
inline void store(Fp16* p, Floats a, Part part) {
  Fp16 lane[8];
  store(lane, a, Whole{});
  __builtin_memcpy(p, lane, static_cast<size_t>(part.count) * 2);
}

struct Doubles {
  __m256d low, high;
};
inline Doubles to_doubles(Floats a) {
  return {_mm256_cvtps_pd(_mm256_castps256_ps128(a)), _mm256_cvtps_pd(_mm256_extractf128_ps(a, 1))};
}
inline Doubles zero_doubles() {
  return {_mm256_setzero_pd(), _mm256_setzero_pd()};
}
inline double sum_of_lanes(Doubles a) {
  double lane[4];
  _mm256_storeu_pd(lane, a.low + a.high);
  return (lane[0] + lane[2]) + (lane[1] + lane[3]);
}

#endif

inline Floats rounded(Floats a, float) {
  return a;
}
// The same as rounded(a, Bf16{}) in fewer steps, where `a` is no NaN, or one whose lower 16 bits are 0.
inline Floats rounded_to_bfloat16(Floats a) {
  const Ints word = bits_of(a), odd = and_int(upper_half(word), broadcast_int(1));
  return floats_of(
      and_int(add_int(word, add_int(odd, broadcast_int(0x7fff))), broadcast_int(static_cast<int32_t>(0xffff0000u))));
}

inline Doubles operator+(Doubles a, Doubles b) {
  return {a.low + b.low, a.high + b.high};
}
inline Doubles operator*(Doubles a, Doubles b) {
  return {a.low * b.low, a.high * b.high};
}

}  // namespace
}  // namespace holdfast::kernels::cpu

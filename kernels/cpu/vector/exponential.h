// exp, log and the logistic function on lanes. Internal linkage for the reason that lanes.h gives.
//
// exponential: e^x for x in [-87, 88]; below it is e^-87 (so never 0 and never subnormal), above e^88; NaN stays NaN.
//   Range reduction by ln 2 in two parts, then the polynomial of Cephes' expf (S. Moshier). Largest relative error 1.2e-7
//   (tests/kernels measure it).
// natural_log: for x > 0 that is not subnormal; infinity and NaN stay what they are. Polynomial of Cephes' logf, absolute
//   error below 1e-6 up to 2^24.
#pragma once

#include "kernels/cpu/vector/lanes.h"

namespace holdfast::kernels::cpu {
namespace {

inline Floats exponential(Floats x) {
  x = smaller(broadcast(88.0f), larger(broadcast(-87.0f), x));  // operands in the order that lets a NaN through
  const Ints n = nearest_int(x * broadcast(1.44269504088896341f));
  const Floats whole = to_floats(n);
  Floats r = fma(whole, broadcast(-0.693359375f), x);
  r = fma(whole, broadcast(2.12194440e-4f), r);
  Floats p = broadcast(1.9875691500e-4f);
  p = fma(p, r, broadcast(1.3981999507e-3f));
  p = fma(p, r, broadcast(8.3334519073e-3f));
  p = fma(p, r, broadcast(4.1665795894e-2f));
  p = fma(p, r, broadcast(1.6666665459e-1f));
  p = fma(p, r, broadcast(5.0000001201e-1f));
  p = fma(p, r * r, r) + broadcast(1.0f);
  // p is in [0.7, 1.42] and n in [-126, 127]: adding n to the exponent stays among normal numbers. A NaN makes n the
  // smallest integer, whose low 9 bits are 0, and stays a NaN.
  return floats_of(add_int(bits_of(p), exponent_bits(n)));
}

inline float natural_log(float x) {
  if (!(x < __builtin_inff())) return x;
  int32_t word;
  __builtin_memcpy(&word, &x, sizeof word);
  const int32_t exponent = (word - 0x3f3504f3) >> 23;  // mantissa then in [sqrt(1/2), sqrt(2))
  word -= exponent * 0x800000;
  float m;
  __builtin_memcpy(&m, &word, sizeof m);
  const float f = m - 1.0f;
  const float e = static_cast<float>(exponent);
  float p = 7.0376836292e-2f;
  p = __builtin_fmaf(p, f, -1.1514610310e-1f);
  p = __builtin_fmaf(p, f, 1.1676998740e-1f);
  p = __builtin_fmaf(p, f, -1.2420140846e-1f);
  p = __builtin_fmaf(p, f, 1.4249322787e-1f);
  p = __builtin_fmaf(p, f, -1.6668057665e-1f);
  p = __builtin_fmaf(p, f, 2.0000714765e-1f);
  p = __builtin_fmaf(p, f, -2.4999993993e-1f);
  p = __builtin_fmaf(p, f, 3.3333331174e-1f);
  float y = p * f * f * f;
  y = __builtin_fmaf(e, -2.12194440e-4f, y);
  y = __builtin_fmaf(f * f, -0.5f, y);
  return __builtin_fmaf(e, 0.693359375f, f + y);
}

// 1 / (1 + e^-x)
inline Floats logistic(Floats x) {
  return broadcast(1.0f) / (broadcast(1.0f) + exponential(broadcast(0.0f) - x));
}

}  // namespace
}  // namespace holdfast::kernels::cpu

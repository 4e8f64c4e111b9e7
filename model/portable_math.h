// The few functions of a real variable that decide the bits of a run, made of + - * / and sqrt alone. IEEE 754 rounds
// those the same way everywhere, while libm's log, cos and pow differ in the last bit between versions and between
// processors (glibc picks variants with and without fused multiply-add at run time). Needs -ffp-contract=off, which
// every target of ours has.
#pragma once

#include <cstdint>

namespace holdfast::model {

double portable_log(double x);                         // x > 0 and normal; relative error below 1e-15
double portable_cos_half_turns(double x);              // cos(pi x) for x in [0, 1]; absolute error below 1e-15
double portable_exp(double x);                         // x <= 0; relative error below 1e-15, 0 from -700 on
double portable_power(double base, int64_t exponent);  // exponent >= 0, by squaring

// The standard normal quantile, for u in (0, 1): relative error about 1e-16 (Wichura 1988, algorithm AS 241, PPND16).
double portable_normal_quantile(double u);

}  // namespace holdfast::model

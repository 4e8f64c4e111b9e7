#include "model/portable_math.h"

#include <array>
#include <cmath>
#include <numbers>

namespace holdfast::model {

namespace {

// Coefficients are in ascending order of power.
double horner(const std::array<double, 8>& coefficients, double x) {
  double sum = 0;
  for (auto c = coefficients.rbegin(); c != coefficients.rend(); ++c) sum = sum * x + *c;
  return sum;
}

// Wichura's a and b (|u - 1/2| <= 0.425), c and d (tails to about 1e-11), e and f (beyond).
constexpr std::array<double, 8> kA = {3.3871328727963666080e0, 1.3314166789178437745e2, 1.9715909503065514427e3,
                                      1.3731693765509461125e4, 4.5921953931549871457e4, 6.7265770927008700853e4,
                                      3.3430575583588128105e4, 2.5090809287301226727e3};
constexpr std::array<double, 8> kB = {1.0,
                                      4.2313330701600911252e1,
                                      6.8718700749205790830e2,
                                      5.3941960214247511077e3,
                                      2.1213794301586595867e4,
                                      3.9307895800092710610e4,
                                      2.8729085735721942674e4,
                                      5.2264952788528545610e3};
constexpr std::array<double, 8> kC = {1.42343711074968357734e0,  4.63033784615654529590e0, 5.76949722146069140550e0,
                                      3.64784832476320460504e0,  1.27045825245236838258e0, 2.41780725177450611770e-1,
                                      2.27238449892691845833e-2, 7.74545014278341407640e-4};
constexpr std::array<double, 8> kD = {1.0,
                                      2.05319162663775882187e0,
                                      1.67638483018380384940e0,
                                      6.89767334985100004550e-1,
                                      1.48103976427480074590e-1,
                                      1.51986665636164571966e-2,
                                      5.47593808499534494600e-4,
                                      1.05075007164441684324e-9};
constexpr std::array<double, 8> kE = {6.65790464350110377720e0,  5.46378491116411436990e0,  1.78482653991729133580e0,
                                      2.96560571828504891230e-1, 2.65321895265761230930e-2, 1.24266094738807843860e-3,
                                      2.71155556874348757815e-5, 2.01033439929228813265e-7};
constexpr std::array<double, 8> kF = {1.0,
                                      5.99832206555887937690e-1,
                                      1.36929880922735805310e-1,
                                      1.48753612908506148525e-2,
                                      7.86869131145613259100e-4,
                                      1.84631831751005468180e-5,
                                      1.42151175831644588870e-7,
                                      2.04426310338993978564e-15};

}  // namespace

double portable_log(double x) {
  int exponent = 0;
  double mantissa = std::frexp(x, &exponent);  // exact; in [1/2, 1)
  if (mantissa < std::numbers::sqrt2 / 2) {
    mantissa *= 2;
    --exponent;
  }
  // log m = 2 atanh(s), s = (m-1)/(m+1), |s| < 0.1716: s^25 / 25 is below 1e-20.
  const double s = (mantissa - 1) / (mantissa + 1);
  double sum = 0;
  for (int power = 23; power >= 1; power -= 2) sum = sum * (s * s) + 1.0 / power;
  return exponent * std::numbers::ln2 + 2 * s * sum;
}

double portable_cos_half_turns(double x) {
  // cos(pi x) = sin(y), y = pi (1/2 - x) in [-pi/2, pi/2]; the Taylor series' first term left out, y^23 / 23!, is below 2e-18.
  const double y = std::numbers::pi * (0.5 - x);
  double sum = 1;
  for (int power = 20; power >= 2; power -= 2) sum = 1 - sum * (y * y) / (power * (power + 1));
  return y * sum;
}

// e^x = 2^n e^r with |r| <= ln(2) / 2, by Taylor's series.
double portable_exp(double x) {
  constexpr double kLog2OfE = 1.4426950408889634074, kLn2High = 0x1.62e42fee00000p-1, kLn2Low = 0x1.a39ef35793c76p-33;
  if (!(x > -700)) return std::isnan(x) ? x : 0;
  const double n = std::nearbyint(x * kLog2OfE), r = (x - n * kLn2High) - n * kLn2Low;
  double sum = 1;
  for (int i = 14; i > 0; --i) sum = 1 + sum * r / i;
  return std::ldexp(sum, static_cast<int>(n));
}

double portable_power(double base, int64_t exponent) {
  double result = 1;
  for (; exponent > 0; exponent >>= 1) {
    if ((exponent & 1) != 0) result *= base;
    base *= base;
  }
  return result;
}

double portable_normal_quantile(double u) {
  const double q = u - 0.5;
  if (std::abs(q) <= 0.425) {
    const double r = 0.180625 - q * q;
    return q * horner(kA, r) / horner(kB, r);
  }
  const double tail = q < 0 ? u : 1 - u;
  const double r = std::sqrt(-portable_log(tail));
  const double magnitude = r <= 5 ? horner(kC, r - 1.6) / horner(kD, r - 1.6) : horner(kE, r - 5) / horner(kF, r - 5);
  return q < 0 ? -magnitude : magnitude;
}

}  // namespace holdfast::model

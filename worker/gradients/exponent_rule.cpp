#include "worker/gradients/exponent_rule.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "model/state/train_state.h"

namespace holdfast::worker {

int64_t fixed_limit(int64_t microbatches, int bits) {
  return (bits == 16 ? INT16_MAX : INT32_MAX) / microbatches - 1;
}

float sum_at_least(float a, float b) {
  const float sum = a + b;
  // The difference is the part of the smaller number that is in the sum; it is exact (Dekker 1971).
  const bool rounded_down = sum - std::max(a, b) < std::min(a, b);
  return rounded_down ? std::nextafter(sum, std::numeric_limits<float>::infinity()) : sum;
}

bool overflows(float largest, int32_t exponent, int64_t limit) {
  if (exponent == model::TrainState::kUnsetExponent) return true;
  // Exact: a float's 24 bits and a power of two in a double.
  return std::ldexp(static_cast<double>(largest), exponent) > static_cast<double>(limit);
}

int32_t choose_exponent(float largest, int headroom, int64_t limit, int32_t when_zero) {
  if (largest == 0.0F) return when_zero;
  int largest_power = 0;
  int limit_power = 0;
  const double largest_fraction = std::frexp(static_cast<double>(largest), &largest_power);
  const double limit_fraction = std::frexp(static_cast<double>(limit), &limit_power);
  const int exponent = limit_power - largest_power - headroom - (largest_fraction <= limit_fraction ? 0 : 1);
  return std::clamp(exponent, kExponentMin, kExponentMax);
}

float mean_scale(int32_t exponent, int64_t dealt_units) {
  return static_cast<float>(std::ldexp(1.0, -exponent) / static_cast<double>(dealt_units));
}

int32_t exponent_of_zeros(int32_t exponent) {
  return exponent == model::TrainState::kUnsetExponent ? 0 : exponent;
}

std::vector<int32_t> ExponentRule::for_repack(std::span<const int32_t> exponents, std::span<const float> maxima) const {
  std::vector<int32_t> chosen(exponents.begin(), exponents.end());
  for (size_t t = 0; t < maxima.size(); ++t) {
    if (overflows(maxima[t], exponents[t])) {
      chosen[t] = choose_exponent(maxima[t], 0, limit_, exponent_of_zeros(exponents[t]));
    }
  }
  if (std::ranges::equal(chosen, exponents)) chosen.clear();
  return chosen;
}

std::vector<int32_t> ExponentRule::for_first_step(std::span<const float> maxima) const {
  const std::vector<int32_t> unset(maxima.size(), model::TrainState::kUnsetExponent);
  const bool finite = std::ranges::all_of(maxima, [](float largest) { return std::isfinite(largest); });
  return finite ? for_next_step(unset, maxima) : unset;
}

std::vector<int32_t> ExponentRule::for_next_step(std::span<const int32_t> exponents, std::span<const float> maxima) const {
  std::vector<int32_t> next(exponents.begin(), exponents.end());
  for (size_t t = 0; t < maxima.size(); ++t) {
    next[t] = choose_exponent(maxima[t], headroom_bits(bits_), limit_, exponent_of_zeros(exponents[t]));
  }
  return next;
}

}  // namespace holdfast::worker

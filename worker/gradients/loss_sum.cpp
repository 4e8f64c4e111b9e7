#include "worker/gradients/loss_sum.h"

#include <algorithm>
#include <cmath>

namespace holdfast::worker {
namespace {

constexpr double kLossUnit = 4294967296.0;  // 2^32
constexpr double kLossMost = 16384.0;       // 2^14: sums of as many microbatches as there may be, 2^16, stay below 2^63

}  // namespace

int64_t loss_to_fixed(double loss) {
  return std::llround(std::clamp(loss, -kLossMost, kLossMost) * kLossUnit);
}

double loss_from_fixed(int64_t sum, int64_t count) {
  return static_cast<double>(sum) / kLossUnit / static_cast<double>(count);
}

}  // namespace holdfast::worker

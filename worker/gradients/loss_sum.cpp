#include "worker/gradients/loss_sum.h"

#include <cmath>

namespace holdfast::worker {
namespace {

constexpr double kLossUnit = 4294967296.0;  // 2^32

}  // namespace

int64_t loss_to_fixed(double loss) {
  return std::llround(loss * kLossUnit);
}

double loss_from_fixed(int64_t sum, int64_t count) {
  return static_cast<double>(sum) / kLossUnit / static_cast<double>(count);
}

}  // namespace holdfast::worker

// The sum of microbatches' losses as an integer, so that it does not depend on the order in which they are added.
#pragma once

#include <cstdint>

namespace holdfast::worker {

// In units of 2^-32. Losses stay far below 2^20 or are not finite.
int64_t loss_to_fixed(double loss);
// The mean of `count` losses whose sum this is.
double loss_from_fixed(int64_t sum, int64_t count);

}  // namespace holdfast::worker

// The sum of microbatches' losses as an integer, so that it does not depend on the order in which they are added.
#pragma once

#include <cstdint>

namespace holdfast::worker {

// In units of 2^-32, of a finite loss. One of a training that has diverged, above 16,384, counts as that much.
int64_t loss_to_fixed(double loss);
// The mean of `count` losses whose sum this is.
double loss_from_fixed(int64_t sum, int64_t count);

}  // namespace holdfast::worker

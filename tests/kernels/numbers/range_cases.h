// Ops over ranges of numbers as cases: the optimizer, sums, fixed point, rows that are added, and the cast of parameters.
#pragma once

#include <vector>

#include "tests/kernels/op_cases.h"

namespace holdfast::kernels::testing {

// Part of small_cases and of large_cases.
std::vector<OpCase> small_range_cases(DType activations, RandomInputs& random);
std::vector<OpCase> large_range_cases(DType activations, RandomInputs& random);

}  // namespace holdfast::kernels::testing

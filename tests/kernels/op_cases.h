// Every op of DeviceOps as a case: fixed inputs, run on any op set of the same dtype, outputs poisoned with NaN before.
// One test compares op sets (cpu against ref), another the same op set with other numbers of threads.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "kernels/ops.h"
#include "tests/kernels/random_inputs.h"

namespace holdfast::kernels::testing {

// How far an output may be from the reference: |x - ref| <= relative * |ref| + absolute * max(scale, largest |ref|).
// `scale` is the size of the numbers that the output is a sum of, which may cancel.
struct Bound {
  double relative = 0, absolute = 0, scale = 1;
};

struct Output {
  std::string name;
  Bound bound;
  std::vector<double> values;  // exact images of what the op wrote
};

struct OpCase {
  std::string name;  // op and shape
  std::function<std::vector<Output>(DeviceOps&)> run;
};

// The form of a product's bias before it is added: as it is, or rounded as weights are (kernels/ops.h allows both).
enum class Bias { kFloat, kRounded };
// Small and odd shapes, for the comparison with ref (which is slow).
std::vector<OpCase> small_cases(DType activations, RandomInputs& random, Bias bias = Bias::kFloat);
// Shapes that give several tasks to each of five threads, long inner dimensions, and unequal last tiles.
std::vector<OpCase> large_cases(DType activations, RandomInputs& random);

}  // namespace holdfast::kernels::testing

// Every op of DeviceOps as a case: fixed inputs that run on any op set of the same dtype. Outputs are filled with NaN before.
// One test compares op sets (cpu with ref), another compares one op set with different numbers of threads.
#pragma once

#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "kernels/ops.h"
#include "tests/kernels/random_inputs.h"

namespace holdfast::kernels::testing {

// The largest allowed error of an output: |x - ref| <= relative * |ref| + absolute * max(scale, largest |ref|).
// `scale` is the magnitude of the terms whose sum the output is; the terms may cancel.
struct Bound {
  double relative = 0, absolute = 0, scale = 1;
};

// Bound for float32 sums of up to a few thousand terms in another order.
inline constexpr Bound kFloatSum{0, 2e-5};
inline constexpr Bound kExact{};

// The bound for a tensor of activations, and for one that was rounded, went through GELU and was rounded again.
Bound stored(DType activations);
Bound stored_twice(DType activations);

struct Output {
  std::string name;
  Bound bound;
  std::vector<double> values;  // the numbers that the op wrote, exactly
};

struct OpCase {
  std::string name;  // the op and its shape
  std::function<std::vector<Output>(DeviceOps&)> run;
};

// The op and its sizes: "drop N,C 7 24".
template <typename... Sizes>
std::string case_name(const char* op, Sizes... sizes) {
  std::string name = op;
  (name.append(" ").append(std::to_string(sizes)), ...);
  return name;
}
// NaNs, which an output has before its op.
inline std::vector<float> poisoned(int64_t count) {
  return std::vector<float>(static_cast<size_t>(count), std::numeric_limits<float>::quiet_NaN());
}
inline std::vector<double> values(const std::vector<float>& x) {
  return {x.begin(), x.end()};
}

// The form of a product's bias before it is added: float32, or rounded like the weights (kernels/ops.h allows both).
enum class Bias { kFloat, kRounded };
// Small and odd shapes, for the comparison with ref, which is slow.
std::vector<OpCase> small_cases(DType activations, RandomInputs& random, Bias bias = Bias::kFloat);
// Products that a GPU cuts into pieces of 128 x 128, as most of a real model's are (kernels/hip/products.hip, plan_of): forward
// and for each gradient, at odd sizes.
std::vector<OpCase> large_cut_cases(DType activations, RandomInputs& random, Bias bias = Bias::kFloat);
// Products that a CPU cuts into tiles of more than 192 rows (kernels/cpu/matmul.cpp: there are 16 of them), and a head whose
// weights, widened, take more than one of a thread's two tiles (kernels/cpu/head.cpp).
std::vector<OpCase> large_tile_cases(DType activations, RandomInputs& random);
// Large shapes: several tasks for each of five threads, long inner dimensions, and last tiles that are smaller.
std::vector<OpCase> large_cases(DType activations, RandomInputs& random);

}  // namespace holdfast::kernels::testing

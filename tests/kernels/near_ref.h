// Compares every small case of an op set with ref, the judge.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "tests/kernels/decode/cases.h"
#include "tests/kernels/op_cases.h"

namespace holdfast::kernels::testing {

inline void expect_near(const Output& output, const Output& expected) {
  ASSERT_EQ(output.values.size(), expected.values.size());
  double largest = output.bound.scale;
  for (double value : expected.values) largest = std::max(largest, std::isfinite(value) ? std::fabs(value) : 0.0);
  for (size_t i = 0; i < expected.values.size(); ++i) {
    const double x = output.values[i], e = expected.values[i];
    if (x == e) continue;
    ASSERT_TRUE(std::isfinite(e)) << output.name << "[" << i << "] is " << x << ", ref has " << e;
    const double allowed = output.bound.relative * std::fabs(e) + output.bound.absolute * largest;
    ASSERT_LE(std::fabs(x - e), allowed) << output.name << "[" << i << "] is " << x << ", ref has " << e;
    ASSERT_FALSE(std::isnan(x)) << output.name << "[" << i << "]";
  }
}

inline void expect_cases_near_ref(DeviceOps& ops) {
  RandomInputs random;
  SCOPED_TRACE(random.how_to_repeat());
  auto ref = make_ref_ops(ops.activation_dtype());
  const Bias bias = has_library_products(ops) ? Bias::kRounded : Bias::kFloat;  // the library takes them of that type
  auto cases = small_cases(ops.activation_dtype(), random, bias);
  for (auto& one : decode_cases(ops.activation_dtype(), random)) cases.push_back(std::move(one));
  if (ops.info().kind == "cpu") {
    for (auto& one : large_tile_cases(ops.activation_dtype(), random)) cases.push_back(std::move(one));
  }
#if !defined(HOLDFAST_HIP_SHIM)  // the CPU that plays a GPU takes the large cut for small matrices, too
  if (ops.info().kind == "hip") {
    for (auto& one : large_cut_cases(ops.activation_dtype(), random, bias)) cases.push_back(std::move(one));
  }
#endif
  for (const auto& one : cases) {
    SCOPED_TRACE(one.name);
    const auto outputs = one.run(ops);
    const auto expected = one.run(*ref);
    for (size_t i = 0; i < outputs.size(); ++i) expect_near(outputs[i], expected[i]);
  }
}

}  // namespace holdfast::kernels::testing

// The cpu op set against the judge, op by op, with bounds that op_cases.cpp states. ctest runs this program once per
// instruction set, by HOLDFAST_TEST_ISA.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "kernels/cpu/cpu_ops.h"
#include "tests/kernels/op_cases.h"

namespace holdfast::kernels {
namespace {

using testing::Output;
using testing::RandomInputs;

void expect_near(const Output& output, const Output& expected) {
  ASSERT_EQ(output.values.size(), expected.values.size());
  double largest = output.bound.scale;
  for (double value : expected.values) largest = std::max(largest, std::isfinite(value) ? std::fabs(value) : 0.0);
  for (size_t i = 0; i < expected.values.size(); ++i) {
    const double x = output.values[i], e = expected.values[i];
    if (x == e) continue;
    const double allowed = output.bound.relative * std::fabs(e) + output.bound.absolute * largest;
    ASSERT_LE(std::fabs(x - e), allowed) << output.name << "[" << i << "] is " << x << ", ref has " << e;
    ASSERT_FALSE(std::isnan(x)) << output.name << "[" << i << "]";
  }
}

void expect_cases_near_ref(DeviceOps& ops) {
  RandomInputs random;
  SCOPED_TRACE(random.how_to_repeat());
  auto ref = make_ref_ops(ops.activation_dtype());
  for (const auto& one : testing::small_cases(ops.activation_dtype(), random)) {
    SCOPED_TRACE(one.name);
    const auto outputs = one.run(ops);
    const auto expected = one.run(*ref);
    for (size_t i = 0; i < outputs.size(); ++i) expect_near(outputs[i], expected[i]);
  }
}

TEST(CpuAgainstRef, Float32) {
  expect_cases_near_ref(*make_cpu_ops(DType::kFloat32, 2));
}

TEST(CpuAgainstRef, BFloat16) {
  expect_cases_near_ref(*make_cpu_ops(DType::kBFloat16, 2));
}

TEST(CpuAgainstRef, Float16) {
  expect_cases_near_ref(*make_cpu_ops(DType::kFloat16, 2));
}

TEST(CpuAgainstRef, ReportsWhatChangesBits) {
  const DeviceInfo info = make_cpu_ops(DType::kFloat32, 3)->info();
  EXPECT_EQ(info.kind, "cpu");
  EXPECT_EQ(info.threads, 3);
  EXPECT_GT(info.memory_bytes, 1 << 20);
  EXPECT_FALSE(info.model.empty());
  const std::string isa = cpu::isa_name(cpu::isa_of_environment());
  EXPECT_TRUE(info.numerics.starts_with("cpu/" + isa) && info.numerics.ends_with("/products-2")) << info.numerics;
  EXPECT_EQ(info.numerics, make_cpu_ops(DType::kBFloat16, 1)->info().numerics) << "threads must not be part of it";
}

}  // namespace
}  // namespace holdfast::kernels

// The cpu op set against the judge, op by op, with the bounds of op_cases.cpp. ctest runs this program once for each
// instruction set (HOLDFAST_TEST_ISA).
#include <gtest/gtest.h>

#include "kernels/cpu/cpu_ops.h"
#include "tests/kernels/decode/cases.h"
#include "tests/kernels/near_ref.h"

namespace holdfast::kernels {
namespace {

using testing::expect_cases_near_ref;

TEST(CpuAgainstRef, Float32) {
  expect_cases_near_ref(*make_cpu_ops(DType::kFloat32, 2));
}

TEST(CpuAgainstRef, BFloat16) {
  expect_cases_near_ref(*make_cpu_ops(DType::kBFloat16, 2));
}

TEST(CpuAgainstRef, Float16) {
  expect_cases_near_ref(*make_cpu_ops(DType::kFloat16, 2));
}

TEST(CpuAgainstRef, DecodedRowsHaveTheBitsOfAForwardPass) {
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kFloat16})
    testing::expect_rows_of_a_forward_pass(*make_cpu_ops(dtype, 2));
}

TEST(CpuAgainstRef, ProductsOfInt8HaveItsBits) {
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kFloat16}) {
    testing::expect_int8_products_of_ref(*make_cpu_ops(dtype, 2));
    testing::expect_int4_products_of_what_they_mean(*make_cpu_ops(dtype, 2));
  }
}

TEST(CpuAgainstRef, ReportsWhatChangesBits) {
  const DeviceInfo info = make_cpu_ops(DType::kFloat32, 3)->info();
  EXPECT_EQ(info.kind, "cpu");
  EXPECT_EQ(info.threads, 3);
  EXPECT_GT(info.memory_bytes, 1 << 20);
  EXPECT_FALSE(info.model.empty());
  const std::string isa = cpu::isa_name(cpu::isa_of_environment());
  EXPECT_TRUE(info.numerics.starts_with("cpu/" + isa) && info.numerics.find("/products-") != std::string::npos)
      << info.numerics;
  EXPECT_EQ(info.numerics, make_cpu_ops(DType::kBFloat16, 1)->info().numerics) << "threads must not be part of it";
}

}  // namespace
}  // namespace holdfast::kernels

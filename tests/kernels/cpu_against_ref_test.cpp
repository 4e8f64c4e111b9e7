// The cpu op set against the judge, op by op, with the bounds of op_cases.cpp. ctest runs this program once for each
// instruction set (HOLDFAST_TEST_ISA).
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/cpu/cpu_ops.h"
#include "tests/kernels/act_tensor.h"
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

// Sums of whole numbers have one value, so that these products have the judge's bits.
TEST(CpuAgainstRef, ProductsOfInt8HaveItsBits) {
  struct Sizes {
    int64_t N, IC, OC;
  };
  testing::RandomInputs random;
  SCOPED_TRACE(random.how_to_repeat());
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kFloat16}) {
    const auto judge_ops = make_ref_ops(dtype), ops = make_cpu_ops(dtype, 2);
    const auto judge = judge_ops->make_decode_ops(WeightForm::kInt8), judged = ops->make_decode_ops(WeightForm::kInt8);
    for (const Sizes& s : {Sizes{1, 70, 5}, {2, 64, 3}, {7, 768, 130}, {9, 24, 1}, {300, 100, 257}}) {
      std::vector<float> x = random.normal(s.N * s.IC), w = random.normal(s.OC * s.IC, 0.05F);
      std::fill_n(w.begin(), s.IC, 0.0F);
      x[0] = 100.0F;
      if (s.N > 2) {
        std::fill_n(x.begin() + s.IC, s.IC, 1e-35F);
        x[static_cast<size_t>(2 * s.IC)] = std::numeric_limits<float>::infinity();
      }
      const testing::ActTensor in(dtype, x), weight(dtype, w);
      const std::vector<float> bias = random.normal(s.OC);
      const auto products = [&](DecodeOps& decode) {
        testing::ActTensor out(dtype, s.N * s.OC);
        std::vector<float> logits(static_cast<size_t>(s.N * s.OC));
        const auto kept = decode.keep(weight.act(), s.OC, s.IC);
        decode.linear(out.act(), in.act(), *kept, bias.data(), Epilogue::kNone, s.N);
        decode.logits(logits.data(), in.act(), *kept, s.N);
        std::vector<double> all = out.values();
        all.insert(all.end(), logits.begin(), logits.end());
        return all;
      };
      const std::vector<double> expected = products(*judge), found = products(*judged);
      for (size_t i = 0; i < expected.size(); ++i) {
        ASSERT_TRUE(found[i] == expected[i] || (std::isnan(found[i]) && std::isnan(expected[i])))
            << found[i] << " at " << i << ", expected " << expected[i] << "; " << s.N << " x " << s.IC << " x " << s.OC << ", "
            << dtype_name(dtype);
      }
    }
  }
}

TEST(CpuAgainstRef, ReportsWhatChangesBits) {
  const DeviceInfo info = make_cpu_ops(DType::kFloat32, 3)->info();
  EXPECT_EQ(info.kind, "cpu");
  EXPECT_EQ(info.threads, 3);
  EXPECT_GT(info.memory_bytes, 1 << 20);
  EXPECT_FALSE(info.model.empty());
  const std::string isa = cpu::isa_name(cpu::isa_of_environment());
  EXPECT_TRUE(info.numerics.starts_with("cpu/" + isa) && info.numerics.ends_with("/products-3")) << info.numerics;
  EXPECT_EQ(info.numerics, make_cpu_ops(DType::kBFloat16, 1)->info().numerics) << "threads must not be part of it";
}

}  // namespace
}  // namespace holdfast::kernels

// The products on matrix units against sums in double: every layout, odd sizes, both operand types.
#include "kernels/cpu/amx/product.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <memory>
#include <vector>

#include "kernels/dtype.h"
#include "tests/kernels/random_inputs.h"

namespace holdfast::kernels::cpu {
namespace {

using testing::RandomInputs;

struct Free {
  void operator()(void* memory) const { std::free(memory); }
};
std::unique_ptr<void, Free> aligned(size_t bytes) {
  return std::unique_ptr<void, Free>(std::aligned_alloc(64, (bytes + 63) / 64 * 64));
}

void multiply(const ProductShape& shape, const void* a, const void* b, float* c) {
  const auto packed = aligned(amx::packed_bytes(shape)), scratch = aligned(amx::scratch_bytes(shape));
  amx::pack(shape, b, packed.get());
  amx::run(shape, a, packed.get(), c, scratch.get());
}

ProductShape shape_of(int64_t m, int64_t k, int64_t n, bool a_transposed, bool b_transposed, bool add, bool bfloat16) {
  return {m, k, n, a_transposed ? transposed(m) : by_rows(k), b_transposed ? transposed(k) : by_rows(n), n, add, bfloat16};
}

class AmxProduct : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!amx::usable()) GTEST_SKIP() << "not run here: this machine has no matrix units, or the system does not give them";
  }
};

// The error of each element, in units of the sum of the magnitudes of its products: what float32 sums are judged by.
void expect_close(const ProductShape& shape, RandomInputs& random) {
  std::vector<float> a = random.normal(shape.m * shape.k), b = random.normal(shape.k * shape.n);
  std::vector<uint16_t> narrow_a(a.size()), narrow_b(b.size());
  if (shape.bfloat16) {
    const auto narrow = [](std::vector<float>& x, std::vector<uint16_t>& bits) {
      for (size_t i = 0; i < x.size(); ++i) {
        bits[i] = BFloat16(x[i]).bits;
        x[i] = BFloat16(x[i]);
      }
    };
    narrow(a, narrow_a);
    narrow(b, narrow_b);
  }
  std::vector<float> c(static_cast<size_t>(shape.m * shape.n), 0.5F);
  multiply(shape, shape.bfloat16 ? static_cast<const void*>(narrow_a.data()) : a.data(),
           shape.bfloat16 ? static_cast<const void*>(narrow_b.data()) : b.data(), c.data());
  for (int64_t i = 0; i < shape.m; ++i) {
    for (int64_t j = 0; j < shape.n; ++j) {
      double expected = shape.add ? 0.5 : 0.0, magnitude = expected;
      for (int64_t k = 0; k < shape.k; ++k) {
        const double product = static_cast<double>(a[static_cast<size_t>(i * shape.a.row + k * shape.a.column)]) *
                               static_cast<double>(b[static_cast<size_t>(k * shape.b.row + j * shape.b.column)]);
        expected += product;
        magnitude += std::fabs(product);
      }
      // Two roundings of float32: plain float32 sums of these lengths are off by up to six.
      ASSERT_NEAR(c[static_cast<size_t>(i * shape.n + j)], expected, 2 * 0x1p-24 * magnitude)
          << "element " << i << ", " << j << " of " << shape.m << " x " << shape.k << " x " << shape.n << ", layouts "
          << shape.a.row << " " << shape.b.row << (shape.bfloat16 ? ", bfloat16" : ", float32");
    }
  }
}

TEST_F(AmxProduct, IsAtLeastAsExactAsFloat32SumsInEveryLayoutAndAtEverySize) {
  RandomInputs random;
  SCOPED_TRACE(random.how_to_repeat());
  for (const auto& [m, k, n] :
       {std::array<int64_t, 3>{1, 1, 1}, {5, 7, 3}, {40, 70, 50}, {33, 129, 17}, {64, 600, 40}, {32, 1100, 33}}) {
    for (int choice = 0; choice < 16; ++choice) {
      expect_close(shape_of(m, k, n, (choice & 1) != 0, (choice & 2) != 0, (choice & 4) != 0, (choice & 8) != 0), random);
    }
  }
}

TEST_F(AmxProduct, WritesNothingBesideItsColumns) {
  ProductShape shape = shape_of(3, 40, 5, false, false, false, false);
  shape.c_width = 8;
  const std::vector<float> a(3 * 40, 1.0F), b(40 * 5, 1.0F);
  std::vector<float> c(3 * 8, -1.0F);
  multiply(shape, a.data(), b.data(), c.data());
  for (size_t i = 0; i < c.size(); ++i) EXPECT_EQ(c[i], i % 8 < 5 ? 40.0F : -1.0F) << i;
}

TEST_F(AmxProduct, WhatIsNotFiniteStaysSo) {
  const ProductShape shape = shape_of(2, 3, 2, false, false, false, false);
  for (const float bad : {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
    const float a[] = {1, bad, 1, 1, 1, 1}, b[] = {1, 1, 1, 1, 1, 1};
    float c[4] = {};
    multiply(shape, a, b, c);
    EXPECT_FALSE(std::isfinite(c[0]) || std::isfinite(c[1])) << bad;
    EXPECT_EQ(c[2], 3.0F) << "the other row does not see it";
  }
}

TEST_F(AmxProduct, AllBitsOfAFloat32OperandCount) {
  RandomInputs random;
  SCOPED_TRACE(random.how_to_repeat());
  const std::vector<float> a = random.normal(64), one{1.0F};
  std::vector<float> c(64);
  multiply(shape_of(64, 1, 1, false, false, false, false), a.data(), one.data(), c.data());
  EXPECT_EQ(c, a);
}

}  // namespace
}  // namespace holdfast::kernels::cpu

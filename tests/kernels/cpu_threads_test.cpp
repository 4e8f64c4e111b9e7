// The same bits with any number of threads, for every op, those of decoding too, and every dtype.
// ctest runs this program once for each instruction set (HOLDFAST_TEST_ISA).
#include <gtest/gtest.h>

#include <algorithm>
#include <initializer_list>
#include <span>

#include "kernels/cpu/cpu_ops.h"
#include "tests/kernels/decode/cases.h"
#include "tests/kernels/op_cases.h"

namespace holdfast::kernels {
namespace {

using testing::RandomInputs;

void expect_same_bits(const std::vector<testing::Output>& one, const std::vector<testing::Output>& other) {
  for (size_t i = 0; i < one.size(); ++i) {
    EXPECT_TRUE(std::ranges::equal(std::as_bytes(std::span(one[i].values)), std::as_bytes(std::span(other[i].values))))
        << one[i].name;
  }
}

// Where a case has an output in two ways, they have the same bits.
void expect_the_same_by_rows(const std::vector<testing::Output>& outputs) {
  for (size_t i = 1; i < outputs.size(); ++i) {
    if (outputs[i].name != outputs[i - 1].name + " by rows") continue;
    EXPECT_TRUE(outputs[i].values == outputs[i - 1].values) << outputs[i].name;
  }
}

template <typename Make>  // make(threads) returns an op set
void expect_threads_do_not_matter(DType dtype, Make make) {
  RandomInputs random;
  SCOPED_TRACE(random.how_to_repeat());
  const auto alone = make(1), two = make(2), three = make(3), five = make(5);
  const auto compare = [&](const testing::OpCase& one, std::initializer_list<DeviceOps*> others) {
    const auto expected = one.run(*alone);
    expect_the_same_by_rows(expected);
    for (DeviceOps* ops : others) {
      SCOPED_TRACE(one.name + " with " + std::to_string(ops->info().threads) + " threads");
      expect_same_bits(expected, one.run(*ops));
    }
  };
  for (const auto& one : testing::small_cases(dtype, random)) compare(one, {three.get()});
  for (const auto& one : testing::large_cases(dtype, random)) compare(one, {alone.get(), two.get(), three.get(), five.get()});
  for (const auto& one : testing::decode_cases(dtype, random)) compare(one, {two.get(), three.get(), five.get()});
}

TEST(CpuThreads, DoNotChangeFloat32Bits) {
  expect_threads_do_not_matter(DType::kFloat32, [](int threads) { return make_cpu_ops(DType::kFloat32, threads); });
}

TEST(CpuThreads, DoNotChangeBFloat16Bits) {
  expect_threads_do_not_matter(DType::kBFloat16, [](int threads) { return make_cpu_ops(DType::kBFloat16, threads); });
}

TEST(CpuThreads, DoNotChangeFloat16Bits) {
  expect_threads_do_not_matter(DType::kFloat16, [](int threads) { return make_cpu_ops(DType::kFloat16, threads); });
}

}  // namespace
}  // namespace holdfast::kernels

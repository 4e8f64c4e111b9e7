// That the vendor's library is asked at all, what it is asked for twice, and what its failures become.
#include <gtest/gtest.h>
#include <hip/hip_runtime.h>
#include <hipblaslt/hipblaslt.h>

#include <string>
#include <type_traits>
#include <vector>

#include "tests/kernels/hip_device.h"
#include "tests/kernels/on_device.h"

namespace holdfast::kernels {
namespace {

// The products of a layer, forward and backward: how often the library was asked, and out, din and dweight.
struct Asked {
  int64_t products;
  std::vector<float> values;
};
Asked ask(DeviceOps& ops, int64_t N, int64_t IC, int64_t OC) {
  const int64_t before = shim::products_by_library();
  const auto counting = [](int64_t count, float step) {
    std::vector<float> x(static_cast<size_t>(count));
    for (size_t i = 0; i < x.size(); ++i) x[i] = step * static_cast<float>(i % 7) - 0.2F;
    return x;
  };
  const auto in = counting(N * IC, 0.1F), weight = counting(OC * IC, 0.05F), bias = counting(OC, 0.3F);
  auto out = counting(N * OC, 0), din = counting(N * IC, 0), dweight = counting(OC * IC, 0), dbias = counting(OC, 0);
  testing::OnDevice on(ops);
  const auto act = [&](auto& x) {
    auto* const there = on.of(x);
    return reinterpret_cast<std::conditional_t<std::is_const_v<std::remove_pointer_t<decltype(there)>>, const Act*, Act*>>(
        there);
  };
  ops.matmul_forward(act(out), nullptr, act(in), act(weight), on.of(bias), Epilogue::kNone, N, IC, OC);
  ops.matmul_backward(act(din), on.of(dweight), on.of(dbias), act(out), act(in), act(weight), N, IC, OC);
  on.fetch();
  Asked asked{shim::products_by_library() - before, out};
  for (const auto& more : {din, dweight}) asked.values.insert(asked.values.end(), more.begin(), more.end());
  return asked;
}

TEST(LibraryProducts, AreAskedForWhatTheyCanDoAndNothingElse) {
  testing::use_wave(32);
  const auto ops = make_hip_ops(DType::kFloat32, 0);
  EXPECT_EQ(ask(*ops, 24, 16, 32).products, 3);
  EXPECT_EQ(ask(*ops, 24, 16, 33).products, 0) << "rows of 33 floats do not begin at multiples of 16 bytes";
  EXPECT_NE(ops->info().numerics.find("hipblaslt-1"), std::string::npos) << ops->info().numerics;
}

TEST(LibraryProducts, HaveTheSameBitsAgain) {
  testing::use_wave(32);
  const auto ops = make_hip_ops(DType::kFloat32, 0);
  const auto first = ask(*ops, 24, 16, 32).values;
  (void)ask(*ops, 8, 64, 16);
  EXPECT_EQ(ask(*ops, 24, 16, 32).values, first);
}

TEST(LibraryProducts, AFailureIsADevices) {
  testing::use_wave(32);
  const auto ops = make_hip_ops(DType::kFloat32, 0);
  (void)ask(*ops, 24, 16, 32);  // scratch is there
  int failures = 0;
  for (int call = 1; call < 60; ++call) {
    shim::fail_call(call, hipErrorLaunchFailure);
    try {
      (void)ask(*ops, 24, 16, 32);
    } catch (const DeviceFailure& failure) {
      failures += std::string(failure.what()).find("library of products") != std::string::npos ? 1 : 0;
    }
    shim::fail_call(0, 0);
  }
  EXPECT_EQ(failures, 3) << "each of its products once";
}

}  // namespace
}  // namespace holdfast::kernels

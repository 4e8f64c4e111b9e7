// The hip op set against the judge, op by op. hip_device.h says on which device.
#include <gtest/gtest.h>

#include "tests/kernels/hip_device.h"
#include "tests/kernels/near_ref.h"

namespace holdfast::kernels {
namespace {

class HipAgainstRef : public ::testing::TestWithParam<std::tuple<DType, int>> {};

TEST_P(HipAgainstRef, EveryOp) {
  if (const std::string reason = testing::reason_not_to_run(); !reason.empty()) GTEST_SKIP() << reason;
  const auto [dtype, wave] = GetParam();
  testing::use_wave(wave);
  testing::expect_cases_near_ref(*make_hip_ops(dtype, hip_devices_by_preference().front()));
}

INSTANTIATE_TEST_SUITE_P(Dtypes, HipAgainstRef,
                         ::testing::Combine(::testing::Values(DType::kFloat32, DType::kBFloat16, DType::kFloat16),
                                            ::testing::ValuesIn(testing::waves())),
                         [](const auto& chosen) { return testing::name_of(chosen); });

}  // namespace
}  // namespace holdfast::kernels

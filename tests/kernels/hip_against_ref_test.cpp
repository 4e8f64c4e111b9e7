// The hip op set against the judge, op by op. hip_device.h says on which device.
#include <gtest/gtest.h>

#include <memory>

#include "tests/kernels/decode/cases.h"
#include "tests/kernels/hip_device.h"
#include "tests/kernels/near_ref.h"

namespace holdfast::kernels {
namespace {

class HipAgainstRef : public ::testing::TestWithParam<std::tuple<DType, int>> {
 protected:
  void SetUp() override {
    if (const std::string reason = testing::reason_not_to_run(); !reason.empty()) GTEST_SKIP() << reason;
    const auto [dtype, wave] = GetParam();
    testing::use_wave(wave);
    ops_ = make_hip_ops(dtype, hip_devices_by_preference().front());
  }
  std::unique_ptr<DeviceOps> ops_;
};

TEST_P(HipAgainstRef, EveryOp) {
  testing::expect_cases_near_ref(*ops_);
}

TEST_P(HipAgainstRef, DecodedRowsHaveTheBitsOfAForwardPass) {
  testing::expect_rows_of_a_forward_pass(*ops_);
}

TEST_P(HipAgainstRef, ProductsOfInt8HaveItsBits) {
  testing::expect_int8_products_of_ref(*ops_);
  testing::expect_int4_products_of_what_they_mean(*ops_);
}

INSTANTIATE_TEST_SUITE_P(Dtypes, HipAgainstRef,
                         ::testing::Combine(::testing::Values(DType::kFloat32, DType::kBFloat16, DType::kFloat16),
                                            ::testing::ValuesIn(testing::waves())),
                         [](const auto& chosen) { return testing::name_of(chosen); });

}  // namespace
}  // namespace holdfast::kernels

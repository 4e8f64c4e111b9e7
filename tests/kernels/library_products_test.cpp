// The vendor's library of matrix products: it is asked for every shape, also a second time, and its failures become errors.
#include <gtest/gtest.h>
#include <hip/hip_runtime.h>
#include <hipblaslt/hipblaslt.h>

#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "kernels/hip/library_products.h"
#include "tests/kernels/hip_device.h"
#include "tests/kernels/near_ref.h"
#include "tests/kernels/on_device.h"

namespace holdfast::kernels {
namespace {

// A layer's tensors on the device, and its products forward and backward.
class Layer {
 public:
  Layer(DeviceOps& ops, int64_t N, int64_t IC, int64_t OC, float first = 0.2F)
      : ops_(ops),
        N_(N),
        IC_(IC),
        OC_(OC),
        in_(DType::kFloat32, counting(N * IC, 0.1F, first)),
        weight_(DType::kFloat32, counting(OC * IC, 0.05F, first)),
        out_(DType::kFloat32, N * OC),
        pre_gelu_(DType::kFloat32, N * OC),
        din_(DType::kFloat32, N * IC),
        bias_(counting(OC, 0.3F, first)),
        dweight_(static_cast<size_t>(OC * IC)),
        dbias_(static_cast<size_t>(OC)),
        on_(ops) {}

  // Runs the layer's products. Returns the number of products that the library was asked for.
  int64_t multiply(Epilogue epilogue = Epilogue::kNone) {
    const int64_t before = shim::products_by_library();
    Act* const pre_gelu = epilogue == Epilogue::kGelu ? on_.of(pre_gelu_) : nullptr;
    ops_.matmul_forward(on_.of(out_), pre_gelu, on_.of(in_), on_.of(weight_), on_.of(bias_), epilogue, N_, IC_, OC_);
    ops_.matmul_backward(on_.of(din_), on_.of(dweight_), on_.of(dbias_), on_.of(out_), on_.of(in_), nullptr, on_.of(weight_),
                         N_, IC_, OC_);
    return shim::products_by_library() - before;
  }
  std::vector<double> results() {
    on_.fetch();
    std::vector<double> all(dweight_.begin(), dweight_.end());
    for (const auto& more : {out_.values(), din_.values()}) all.insert(all.end(), more.begin(), more.end());
    return all;
  }

 private:
  static std::vector<float> counting(int64_t count, float step, float first) {
    std::vector<float> x(static_cast<size_t>(count));
    for (size_t i = 0; i < x.size(); ++i) x[i] = step * static_cast<float>(i % 7) - first;
    return x;
  }

  DeviceOps& ops_;
  int64_t N_, IC_, OC_;
  testing::ActTensor in_, weight_, out_, pre_gelu_, din_;
  std::vector<float> bias_, dweight_, dbias_;
  testing::OnDevice on_;
};

std::unique_ptr<DeviceOps> ops_of(DType dtype) {
  testing::use_wave(32);
  return make_hip_ops(dtype, 0);
}

TEST(LibraryProducts, AreUsedOnlyForShapesThatTheLibraryTakes) {
  const auto ops = ops_of(DType::kFloat32);
  EXPECT_EQ(Layer(*ops, 24, 16, 32).multiply(), 3);
  EXPECT_EQ(Layer(*ops, 24, 16, 33).multiply(), 0) << "rows of 33 floats do not begin at multiples of 16 bytes";
  EXPECT_NE(ops->info().numerics.find("kernels-4+hipblaslt-100100-1cu"), std::string::npos) << ops->info().numerics;
}

TEST(LibraryProducts, OfVersionsWithKnownErrorsAreNotUsed) {
  using Limits = hip::HipblasltLimits;
  EXPECT_EQ(hip::hipblaslt_limits("gfx942", 100000), (Limits{.gaps = false}));
  EXPECT_EQ(hip::hipblaslt_limits("gfx942", 100100), Limits{});
  EXPECT_FALSE(hip::hipblaslt_limits("gfx1201", 100403).any);
  EXPECT_EQ(hip::hipblaslt_limits("gfx1201", 100500), (Limits{.float32 = false}));
}

TEST(LibraryProducts, WithGapsBetweenRowsAreNotAskedOfAVersionThatWritesThemWrongly) {
  shim::refuse_odd_shapes(false);
  const auto products_of_logits = [](int64_t V) {
    const auto ops = ops_of(DType::kFloat32);
    const std::vector<float> x(16), wte(static_cast<size_t>(V) * 8);
    std::vector<float> losses(2);
    testing::ActTensor x_act(DType::kFloat32, x), wte_act(DType::kFloat32, wte);
    const std::vector<int32_t> targets{0, 1};
    testing::OnDevice on(*ops);
    const int64_t before = shim::products_by_library();
    ops->head_loss(on.of(losses), on.of(x_act), on.of(wte_act), on.of(targets), 2, 8, V);
    on.fetch();
    return shim::products_by_library() - before;
  };
  EXPECT_EQ(products_of_logits(33), 1) << "whose rows begin at multiples of 32";
  shim::set_library_version(100000);
  EXPECT_EQ(products_of_logits(33), 0);
  EXPECT_EQ(products_of_logits(32), 1) << "no gaps";
  shim::set_library_version(100100);
  shim::refuse_odd_shapes(true);
}

TEST(LibraryProducts, EveryShapeIsNearTheJudges) {
  shim::refuse_odd_shapes(false);
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kFloat16}) testing::expect_cases_near_ref(*ops_of(dtype));
  shim::refuse_odd_shapes(true);
}

TEST(LibraryProducts, HaveTheirOwnOperandsWhenAShapeIsAskedForAgain) {
  const auto ops = ops_of(DType::kFloat32);
  std::vector<double> alone;
  {
    Layer one(*ops, 24, 16, 32);
    one.multiply(Epilogue::kGelu);
    alone = one.results();
  }
  Layer one(*ops, 24, 16, 32), other(*ops, 24, 16, 32, 0.7F);  // both live at once, so that their memory differs
  one.multiply(Epilogue::kGelu);
  EXPECT_EQ(other.multiply(Epilogue::kGelu), 3);
  EXPECT_EQ(one.results(), alone);
  EXPECT_NE(other.results(), alone);
  Layer again(*ops, 24, 16, 32);
  again.multiply(Epilogue::kGelu);
  EXPECT_EQ(again.results(), alone);
}

TEST(LibraryProducts, AFullMemoryInTheLibraryIsNotAFailureOfTheDevice) {
  const auto ops = ops_of(DType::kFloat32);
  shim::answer_next_product(HIPBLAS_STATUS_ALLOC_FAILED);
  try {
    Layer(*ops, 24, 16, 32).multiply();
    FAIL() << "it was said that there is no memory";
  } catch (const DeviceFailure& failure) {
    FAIL() << "a worker would be started again, for ever: " << failure.what();
  } catch (const std::runtime_error& refused) {
    EXPECT_NE(std::string(refused.what()).find("lower batch_size or set recompute"), std::string::npos) << refused.what();
  }
}

TEST(LibraryProducts, AFailedCallIsAFailureOfTheDevice) {
  const auto ops = ops_of(DType::kFloat32);
  Layer layer(*ops, 24, 16, 32);
  layer.multiply();  // allocates the scratch memory
  int failures = 0;
  for (int call = 1; call < 60; ++call) {
    shim::fail_call(call, hipErrorLaunchFailure);
    try {
      layer.multiply();
    } catch (const DeviceFailure& failure) {
      failures += std::string(failure.what()).find("library of matrix products") != std::string::npos ? 1 : 0;
    }
    shim::fail_call(0, 0);
  }
  EXPECT_EQ(failures, 3) << "each of its products once";
}

}  // namespace
}  // namespace holdfast::kernels

// The choice of --device, in builds with and without the op set for GPUs, on machines with and without a GPU.
#include "worker/process/devices.h"

#include <gtest/gtest.h>

namespace holdfast::worker {
namespace {

// GPUs that tell which one was asked for.
int asked_for = -1;
std::unique_ptr<kernels::DeviceOps> make_gpu(kernels::DType dtype, int device) {
  asked_for = device;
  return kernels::make_ref_ops(dtype);
}
int first() {
  return 0;
}
constexpr GpuOps kNone{[] { return 0; }, first, make_gpu}, kOne{[] { return 1; }, first, make_gpu},
    kTwo{[] { return 2; }, first, make_gpu};
constexpr GpuOps kSecondIsBetter{[] { return 2; }, [] { return 1; }, make_gpu};

// "gpu 1", "cpu", "ref", or the error.
std::string chosen(const std::string& device, const GpuOps* gpus) {
  const auto found = choose_device(device, 1, gpus);
  if (!found) return found.error();
  asked_for = -1;
  const auto ops = found->make_ops(kernels::DType::kFloat32);
  return asked_for >= 0 ? "gpu " + std::to_string(asked_for) : ops->info().kind;
}

TEST(Devices, HaveNames) {
  for (const char* device : {"auto", "cpu", "ref", "hip", "hip:0", "hip:15"}) EXPECT_TRUE(is_device_name(device)) << device;
  for (const char* device : {"", "gpu", "cuda", "HIP", "hip:", "hip:-1", "hip:1 ", "hip:99999999999"})
    EXPECT_FALSE(is_device_name(device)) << device;
}

TEST(Devices, AreTheGpuWhereThereIsOne) {
  EXPECT_EQ(chosen("auto", &kTwo), "gpu 0");
  EXPECT_EQ(chosen("hip", &kTwo), "gpu 0");
  EXPECT_EQ(chosen("hip:1", &kTwo), "gpu 1");
  EXPECT_EQ(chosen("cpu", &kTwo), "cpu");
  EXPECT_EQ(chosen("ref", &kTwo), "ref");
  EXPECT_EQ(chosen("auto", &kNone), "cpu");
  EXPECT_EQ(chosen("auto", nullptr), "cpu");
  EXPECT_EQ(chosen("auto", &kSecondIsBetter), "gpu 1");
  EXPECT_EQ(chosen("hip", &kSecondIsBetter), "gpu 1");
  EXPECT_EQ(chosen("hip:0", &kSecondIsBetter), "gpu 0");
}

TEST(Devices, OfTorchrunsLocalRankAreTakenByAutoAlone) {
  EXPECT_EQ(choose_device("auto", 1, &kTwo, 1)->gpu, "hip:1");
  EXPECT_EQ(choose_device("auto", 1, &kTwo, 2)->gpu, "hip:0") << "there is no third";
  EXPECT_EQ(choose_device("hip:0", 1, &kTwo, 1)->gpu, "hip:0");
}

TEST(Devices, TellWhichGpuToAskForAgain) {
  EXPECT_EQ(choose_device("auto", 1, &kTwo)->gpu, "hip:0");
  EXPECT_EQ(choose_device("hip:1", 1, &kTwo)->gpu, "hip:1");
  EXPECT_EQ(choose_device("auto", 1, &kNone)->gpu, "");
  EXPECT_EQ(choose_device("cpu", 1, &kTwo)->gpu, "");
}

TEST(Devices, ThatAreNotThereAreRefusedWithWhatToDo) {
  EXPECT_EQ(chosen("hip", nullptr), "--device hip: this build has no HIP; use --device cpu, or build with cmake --preset hip");
  EXPECT_EQ(chosen("hip:1", &kOne), "--device hip:1: there is 1 GPU here, hip:0");
  EXPECT_EQ(chosen("hip:7", &kTwo), "--device hip:7: there are 2 GPUs here, hip:0 to hip:1");
  EXPECT_NE(chosen("hip", &kNone).find("/dev/kfd"), std::string::npos) << chosen("hip", &kNone);
}

}  // namespace
}  // namespace holdfast::worker

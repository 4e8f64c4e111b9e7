// The choice of --device, in builds with and without the op set for GPUs, on machines with and without a GPU.
#include "worker/devices/devices.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

namespace holdfast::worker {
namespace {

// GPUs that tell which one was asked for.
int asked_for = -1;
std::unique_ptr<kernels::DeviceOps> make_gpu(kernels::DType dtype, int device) {
  asked_for = device;
  return kernels::make_ref_ops(dtype);
}
template <int kCount>
kernels::GpusFound found() {
  return {kCount, ""};
}
std::vector<int> both() {
  return {0, 1};
}
std::string identity_of(int device) {
  return "0000:0" + std::to_string(device) + ":00.0";
}
constexpr GpuOps kNone{found<0>, [] { return std::vector<int>(); }, identity_of, make_gpu},
    kOne{found<1>, [] { return std::vector<int>{0}; }, identity_of, make_gpu}, kTwo{found<2>, both, identity_of, make_gpu},
    kSecondIsBetter{found<2>,
                    [] {
                      return std::vector<int>{1, 0};
                    },
                    identity_of, make_gpu},
    kOldDriver{[] {
                 return kernels::GpusFound{0, "/dev/kfd is there, but its driver is too old"};
               },
               both, identity_of, make_gpu};

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

TEST(Devices, WithADriverThatShowsNoneAreNotTheCpuUnasked) {
  EXPECT_EQ(chosen("auto", &kOldDriver),
            "--device auto: /dev/kfd is there, but its driver is too old. --device cpu does without");
  EXPECT_EQ(chosen("hip:1", &kOldDriver),
            "--device hip:1: /dev/kfd is there, but its driver is too old. --device cpu does without");
  EXPECT_EQ(chosen("cpu", &kOldDriver), "cpu");
  EXPECT_EQ(count_gpus(&kOldDriver).error(), "/dev/kfd is there, but its driver is too old");
  EXPECT_EQ(count_gpus(nullptr), 0);
}

class LockedDevices : public testing::Test {
 protected:
  ~LockedDevices() override { std::filesystem::remove_all(folder_); }
  auto choose(const std::string& device, const GpuLocks& locks, const GpuOps& gpus = kTwo, int64_t local_rank = -1) {
    return choose_device(device, 1, &gpus, local_rank, &locks, std::chrono::milliseconds(0));
  }
  static std::string made_folder() {
    std::string path = testing::TempDir() + "devices_test_XXXXXX";
    return mkdtemp(path.data());
  }
  const std::string folder_ = made_folder();
  const GpuLocks one_{{folder_}, "w1"}, other_{{folder_}, "w2"}, third_{{folder_}, "w3"};
};

TEST_F(LockedDevices, AreOfOneWorkerEach) {
  const auto one = choose("auto", one_), other = choose("auto", other_);
  EXPECT_EQ(one->gpu, "hip:0");
  EXPECT_EQ(other->gpu, "hip:1");
  const std::string who = fmt::format("(process {})", getpid());
  EXPECT_EQ(choose("auto", third_).error(), "--device auto: hip:0 is taken by w1 " + who + ", hip:1 is taken by w2 " + who +
                                                ". Two programs on one GPU are slower than one; --share_device has them share "
                                                "it all the same, --device cpu does without");
  EXPECT_EQ(choose("hip:1", third_).error().substr(0, 50), "--device hip:1: hip:1 is taken by w2 " + who.substr(0, 13));
  EXPECT_EQ(choose_device("hip:1", 1, &kTwo)->gpu, "hip:1") << "it is shared";
}

TEST_F(LockedDevices, AreFreeAgainWhenTheirWorkerEnds) {
  { const auto one = choose("hip:1", one_); }
  EXPECT_EQ(choose("hip:1", other_)->gpu, "hip:1");
}

TEST_F(LockedDevices, OfALocalRankComeFirstButNoTakenOne) {
  const auto one = choose("auto", one_, kTwo, 1), other = choose("auto", other_, kTwo, 1);
  EXPECT_EQ(one->gpu, "hip:1");
  EXPECT_EQ(other->gpu, "hip:0");
  const auto better = choose("hip", third_, kSecondIsBetter);
  EXPECT_FALSE(better) << better->gpu;
}

TEST_F(LockedDevices, AreLockedInTheFirstFolderThatCanBeWritten) {
  const GpuLocks elsewhere({"/no/such/folder", folder_}, "w1");
  const auto one = choose("hip:0", elsewhere);
  EXPECT_TRUE(one);
  EXPECT_FALSE(choose("hip:0", other_));
  const auto refused = choose("hip:0", GpuLocks({"/no/such/folder"}, "w1"));
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().find("/no/such/folder/holdfast-gpu-0000:00:00.0.lock: No such file or directory"),
            std::string::npos)
      << refused.error();
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

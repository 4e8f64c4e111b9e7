// GPUs as the runtime shows them: which come first, their names, and why there are none. The CPU plays them (rung 3).
#include "kernels/gpus.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <iostream>

namespace holdfast::kernels {
namespace {

class Gpus : public testing::Test {
 protected:
  Gpus() { std::ofstream(driver_) << "a driver's file"; }
  ~Gpus() override {
    for (const char* name : {"HOLDFAST_SHIM_DEVICES", "HOLDFAST_SHIM_DRIVER", "HOLDFAST_SHIM_OLD_DRIVER"}) unsetenv(name);
    unlink(driver_.c_str());
  }
  static void set(const char* name, const std::string& value) { setenv(name, value.c_str(), 1); }
  const std::string driver_ = testing::TempDir() + "gpus_test-" + std::to_string(getpid());
};

TEST_F(Gpus, HaveNumbersAndNamesOfTheirOwn) {
  set("HOLDFAST_SHIM_DEVICES", "3");
  EXPECT_EQ(find_hip_devices().count, 3);
  EXPECT_EQ(find_hip_devices().why_none, "");
  EXPECT_EQ(hip_devices_by_preference(), (std::vector<int>{0, 1, 2}));
  EXPECT_EQ(hip_device_identity(0), "0000:03:00.0");
  EXPECT_EQ(hip_device_identity(2), "0000:03:02.0");
}

TEST_F(Gpus, AreMissedWithoutAWordWhereNothingSpeaksForOne) {
  set("HOLDFAST_SHIM_DEVICES", "0");
  EXPECT_EQ(find_hip_devices().count, 0);
  EXPECT_EQ(find_hip_devices().why_none, "");
  EXPECT_TRUE(hip_devices_by_preference().empty());
  set("HOLDFAST_SHIM_OLD_DRIVER", "1");  // CUDA's runtime says that, too, where there is no driver
  EXPECT_EQ(find_hip_devices().why_none, "");
}

TEST_F(Gpus, OfADriverThatShowsNoneAreMissedInItsWords) {
  set("HOLDFAST_SHIM_DRIVER", driver_);
  set("HOLDFAST_SHIM_DEVICES", "0");
  EXPECT_EQ(
      find_hip_devices().why_none,
      driver_ + " is there, so a GPU's driver is loaded, but the runtime finds no GPU: no ROCm-capable device is detected");
  set("HOLDFAST_SHIM_OLD_DRIVER", "1");
  EXPECT_EQ(find_hip_devices().why_none, driver_ +
                                             " is there, so a GPU's driver is loaded, but the runtime finds no GPU: driver "
                                             "version is insufficient for runtime version. Update the driver, or build with "
                                             "the toolkit of its time");
}

// In a process of its own, as a user who is not root.
TEST_F(Gpus, ThatThisUserMayNotOpenAreSaidToBeSo) {
  set("HOLDFAST_SHIM_DRIVER", driver_);
  set("HOLDFAST_SHIM_DEVICES", "0");
  chmod(driver_.c_str(), 0);
  const pid_t child = fork();
  if (child == 0) {
    if (getuid() == 0 && setuid(65534) != 0) _exit(2);
    const std::string why = find_hip_devices().why_none;
    const bool right = why.starts_with("this user may not open " + driver_ + " (Permission denied)");
    if (!right) std::cerr << why << "\n";
    _exit(right ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(WIFEXITED(status) ? WEXITSTATUS(status) : -1, 0);
}

}  // namespace
}  // namespace holdfast::kernels

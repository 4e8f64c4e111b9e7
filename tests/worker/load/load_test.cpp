// Loads of devices as this machine's files tell them: amdgpu's by trees as its driver lays them out, the CPU's by this
// process.
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <map>
#include <thread>

#include "worker/load/load_reader.h"

namespace holdfast::worker {
namespace {

namespace fs = std::filesystem;

class Files : public ::testing::Test {
 protected:
  Files() : folder_(fs::temp_directory_path() / ("holdfast-load-" + std::to_string(getpid()))) {
    fs::create_directories(folder_);
  }
  ~Files() override { fs::remove_all(folder_); }

  void write(const std::map<std::string, std::string>& files) const {
    for (const auto& [name, text] : files) {
      fs::create_directories((folder_ / name).parent_path());
      std::ofstream(folder_ / name) << text;
    }
  }

  fs::path folder_;
};

// As on Linux 6.8 with a Radeon RX 7900 XTX: lines end with a newline, hwmon's number is any.
TEST_F(Files, OfAmdsDriverTellBusyMemoryPowerAndTemperature) {
  write({{"gpu_busy_percent", "97\n"},
         {"mem_info_vram_total", "25753026560\n"},
         {"mem_info_vram_used", "11811160064\n"},
         {"hwmon/hwmon5/name", "amdgpu\n"},
         {"hwmon/hwmon5/power1_average", "287000000\n"},
         {"hwmon/hwmon5/temp1_input", "61000\n"},
         {"hwmon/hwmon5/temp2_input", "78000\n"}});
  const auto load = make_amd_load_reader(folder_)->read();
  EXPECT_DOUBLE_EQ(load.busy.value(), 0.97);
  EXPECT_EQ(load.memory_used_bytes, 11811160064);
  EXPECT_DOUBLE_EQ(load.watts.value(), 287);
  EXPECT_DOUBLE_EQ(load.celsius.value(), 61);
}

// Cards of RDNA3 and later have power1_input in place of the mean.
TEST_F(Files, OfANewerCardHaveThePresentPowerAlone) {
  write({{"gpu_busy_percent", "0\n"}, {"hwmon/hwmon2/power1_input", "14500000\n"}});
  const auto load = make_amd_load_reader(folder_)->read();
  EXPECT_DOUBLE_EQ(load.busy.value(), 0);
  EXPECT_DOUBLE_EQ(load.watts.value(), 14.5);
  EXPECT_FALSE(load.memory_used_bytes);
  EXPECT_FALSE(load.celsius);
}

TEST_F(Files, ThatAreNotThereOrHoldNoNumberAreNoFigures) {
  EXPECT_EQ(make_amd_load_reader(folder_ / "nowhere")->read(), rendezvous::DeviceLoad{});
  write({{"gpu_busy_percent", ""}, {"mem_info_vram_used", "busy\n"}, {"hwmon/hwmon0/temp1_input", "\n"}});
  EXPECT_EQ(make_amd_load_reader(folder_)->read(), rendezvous::DeviceLoad{});
}

TEST_F(Files, OfAProcessAreReadWhateverItsNameIs) {
  write(
      {{"stat", "4711 (a) b (c) R 1 2 3 4 5 6 7 8 9 10 100 50 0 0 20 0 4 0 100 0 0\n"}, {"statm", "5000 250 10 1 0 100 0\n"}});
  const auto reader = make_cpu_load_reader(2, folder_);
  const auto first = reader->read();
  EXPECT_FALSE(first.busy) << "since when?";
  EXPECT_EQ(first.memory_used_bytes, 250 * sysconf(_SC_PAGESIZE));
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  write({{"stat", "4711 (a) b (c) R 1 2 3 4 5 6 7 8 9 10 10000 50 0 0 20 0 4 0 100 0 0\n"}});
  EXPECT_DOUBLE_EQ(reader->read().busy.value(), 1) << "99 s of computing in a tenth of a second: it is bounded";
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_DOUBLE_EQ(reader->read().busy.value(), 0);
}

TEST(CpuLoad, OfAProcessThatComputesIsOneThreadOfItsThreads) {
  const auto reader = make_load_reader("", 2);
  reader->read();
  volatile double sum = 0;
  const auto begun = std::chrono::steady_clock::now();
  const auto until = std::clock() + CLOCKS_PER_SEC / 4;  // of computing, also where others compute in between
  while (std::clock() < until) sum = sum + 1;
  const auto load = reader->read();
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begun;
  EXPECT_NEAR(load.busy.value(), 0.25 / (2 * took.count()), 0.1);
  EXPECT_LT(load.busy.value(), 0.7) << "one of two threads";
  EXPECT_GT(load.memory_used_bytes.value(), 1 << 20);
}

TEST(NvidiaLoad, NeedsTheLibraryOfItsDriverOrThereIsNone) {
  const auto reader = make_nvidia_load_reader("ffff:ff:1f.0");
  EXPECT_EQ(reader, nullptr) << "there is no such device, with NVML or without";
}

}  // namespace
}  // namespace holdfast::worker

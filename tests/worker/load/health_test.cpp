// The health of GPUs as their drivers tell it: amdgpu by a tree of files as it lays them out, NVIDIA's by an NVML that the test
// plays (played_nvml.cpp).
#include "worker/load/health.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>

namespace holdfast::worker {
namespace {

namespace fs = std::filesystem;
using Errors = std::map<std::string, ErrorCounts>;

class Health : public ::testing::Test {
 protected:
  Health() : folder(fs::temp_directory_path() / ("holdfast-health-" + std::to_string(getpid()))) {
    fs::create_directories(folder);
  }
  ~Health() override { fs::remove_all(folder); }

  void write(const std::string& name, const std::string& text) const {
    fs::create_directories((folder / name).parent_path());
    std::ofstream(folder / name, std::ios::binary) << text;
  }
  // gpu_metrics of so many bytes, with its revisions, and the throttlers at their place in 1.3.
  void write_metrics(uint16_t bytes, char format, char content, uint64_t throttlers) const {
    std::string table(bytes, '\0');
    std::memcpy(table.data(), &bytes, sizeof bytes);
    table[2] = format;
    table[3] = content;
    if (table.size() >= 120) std::memcpy(table.data() + 112, &throttlers, sizeof throttlers);
    write("gpu_metrics", table);
  }
  DeviceHealth of_amd() const { return make_amd_health_reader(folder)->read(); }

  fs::path folder;
};

TEST_F(Health, OfAmdsDriverIsTheErrorsThatItCountsByPart) {
  write("ras/umc_err_count", "ue: 2\nce: 17\nde: 1\n");
  write("ras/sdma_err_count", "ue: 0\nce: 3\n");
  write("ras/features", "feature mask: 0xfff\n");
  EXPECT_EQ(of_amd().errors, (Errors{{"sdma", {0, 3}}, {"umc", {2, 17}}}));
  EXPECT_EQ(of_amd().hot, "");
}

TEST_F(Health, OfAmdsDriverLosesNothingToAFileThatMakesNoSense) {
  write("ras/umc_err_count", "ue: 1\nce: 0\n");
  write("ras/gfx_err_count", "");
  write("ras/mmhub_err_count", "ue: many\nce: 4\n");
  write("ras/sdma_err_count", "ue: -3\nce: 4\n");
  write("ras/hdp_err_count", "Query currently inaccessible\n");
  write("hwmon/hwmon2/temp1_input", "hot\n");
  write("gpu_metrics", "x");
  EXPECT_EQ(of_amd().errors, (Errors{{"umc", {1, 0}}}));
  EXPECT_EQ(of_amd().hot, "");
}

TEST_F(Health, OfAmdsDriverIsHotAtASensorsCriticalTemperature) {
  write("hwmon/hwmon4/temp1_input", "61000\n");
  write("hwmon/hwmon4/temp1_crit", "100000\n");
  write("hwmon/hwmon4/temp2_input", "112000\n");
  write("hwmon/hwmon4/temp2_crit", "110000\n");
  write("hwmon/hwmon4/temp2_label", "junction\n");
  EXPECT_EQ(of_amd().hot, "junction at 112 degrees of 110");
  write("hwmon/hwmon4/temp2_input", "109000\n");
  EXPECT_EQ(of_amd().hot, "");
}

TEST_F(Health, OfAmdsDriverIsHotWhenItsTableSaysSo) {
  write_metrics(120, 1, 3, uint64_t{1} << 36 | 1);
  EXPECT_EQ(of_amd().hot, "the hotspot's limit");
  write_metrics(120, 1, 3, 0xffff'ffff);
  EXPECT_EQ(of_amd().hot, "") << "power and current, at whose limits a busy GPU belongs";
}

TEST_F(Health, OfATableThatIsAnotherOneIsTheSensors) {
  write("hwmon/hwmon4/temp3_input", "105000\n");
  write("hwmon/hwmon4/temp3_crit", "105000\n");
  for (const char content : {2, 4}) {
    write_metrics(120, 1, content, 0);
    EXPECT_EQ(of_amd().hot, "temp3 at 105 degrees of 105") << int{content};
  }
  write_metrics(120, 2, 3, 0);
  EXPECT_EQ(of_amd().hot, "temp3 at 105 degrees of 105") << "of a processor with graphics";
  write_metrics(128, 1, 3, 0);
  EXPECT_EQ(of_amd().hot, "temp3 at 105 degrees of 105") << "of another size";
  write_metrics(120, 1, 3, ~uint64_t{0});
  EXPECT_EQ(of_amd().hot, "temp3 at 105 degrees of 105") << "a field that this GPU has not";
}

TEST_F(Health, OfAFolderWithoutAnyIsNone) {
  EXPECT_EQ(make_amd_health_reader(folder / "nowhere"), nullptr);
  EXPECT_EQ(make_amd_health_reader(folder), nullptr);
}

TEST_F(Health, OfTheCpuIsNone) {
  EXPECT_EQ(make_health_reader(""), nullptr);
}

class NvidiaHealth : public Health {
 protected:
  NvidiaHealth() { setenv("HOLDFAST_PLAYED_NVML", (folder / "told").c_str(), 1); }
  ~NvidiaHealth() override { unsetenv("HOLDFAST_PLAYED_NVML"); }
  static std::unique_ptr<HealthReader> reader() { return make_nvidia_health_reader("0000:03:00.0", PLAYED_NVML); }
};

TEST_F(NvidiaHealth, IsItsEccErrorsItsHeatAndItsXids) {
  write("told", "uncorrected 2 corrected 5 reasons 68 xid 79");
  const auto health = reader();
  const DeviceHealth read = health->read();
  EXPECT_EQ(read.errors, (Errors{{"memory", {2, 5}}}));
  EXPECT_EQ(read.hot, "the hardware's limit, at which it slows down to half or less");
  EXPECT_THAT(read.xids, ::testing::ElementsAre(79));
  EXPECT_TRUE(health->read().xids.empty()) << "an Xid is told once";
}

TEST_F(NvidiaHealth, IsNotHotForItsPowerOrForIdling) {
  write("told", "reasons 5");
  EXPECT_EQ(reader()->read().hot, "");
  write("told", "reasons 32");
  EXPECT_EQ(reader()->read().hot, "the driver's limit");
}

TEST_F(NvidiaHealth, IsWhatIsLeftWhereAGpuHasNoEcc) {
  write("told", "reasons 32 xid 13");
  const DeviceHealth read = reader()->read();
  EXPECT_TRUE(read.errors.empty());
  EXPECT_THAT(read.xids, ::testing::ElementsAre(13));
}

TEST_F(NvidiaHealth, NeedsTheLibraryOfItsDriverAndItsDeviceOrThereIsNone) {
  EXPECT_EQ(make_nvidia_health_reader("0000:03:00.0", "libno-such-nvml.so.1"), nullptr);
  EXPECT_EQ(make_nvidia_health_reader("0000:99:00.0", PLAYED_NVML), nullptr);
}

}  // namespace
}  // namespace holdfast::worker

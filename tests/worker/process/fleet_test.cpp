// The words of --devices, the arguments of each of its workers, and processes that end with it.
#include "worker/process/fleet.h"

#include <gtest/gtest.h>

namespace holdfast::worker {
namespace {

using Names = std::vector<std::string>;

Names names(const std::string& devices, int gpus) {
  const auto found = device_names(devices, [gpus] { return gpus; });
  return found ? *found : Names{found.error()};
}

TEST(Fleet, HasAWorkerForEachDeviceThatIsNamed) {
  EXPECT_EQ(names("all", 3), (Names{"hip:0", "hip:1", "hip:2"}));
  EXPECT_EQ(names("all", 0), Names{"cpu"}) << "as --device auto does without a GPU";
  EXPECT_EQ(names("0,1,3", 4), (Names{"hip:0", "hip:1", "hip:3"}));
  EXPECT_EQ(names("cpu:2", 4), (Names{"cpu", "cpu"}));
}

TEST(Fleet, SaysWhichGpuIsNotThere) {
  EXPECT_EQ(names("0,2", 2), Names{"--devices 0,2: there is no GPU 2 here, but 2 GPUs, from 0 on; cpu:N is for the CPU"});
  const auto found = device_names("all", [] { return tl::unexpected(std::string("its driver is too old")); });
  EXPECT_EQ(found.error(), "--devices all: its driver is too old. --device cpu does without");
  const auto failed = device_names("all", []() -> tl::expected<int, std::string> { throw std::runtime_error("hip: no"); });
  EXPECT_EQ(failed.error(), "--devices all: hip: no. --device cpu does without");
  EXPECT_EQ(names("1", 0), Names{"--devices 1: there is no GPU 1 here, but none; cpu:N is for the CPU"});
}

TEST(Fleet, KnowsItsWords) {
  for (const char* good : {"all", "0", "0,1,3", "cpu:1", "cpu:64"}) EXPECT_TRUE(is_list_of_devices(good)) << good;
  for (const char* bad : {"", "gpu", "0,", ",0", "0,0", "-1", "0 1", "cpu", "cpu:0", "cpu:65", "hip:0", "99"}) {
    EXPECT_FALSE(is_list_of_devices(bad)) << bad;
  }
}

TEST(Fleet, GivesEachWorkerItsOwnFlagsAndAllTheOthers) {
  const Names given = {"--server",  "http://a:1", "--devices=all", "--name",   "box",
                       "--threads", "8",          "--ring_port",   "7072-7087"};
  EXPECT_EQ(arguments_of({"box-1", "hip:1", 4}, given), (Names{"--server", "http://a:1", "--ring_port", "7072-7087", "--device",
                                                               "hip:1", "--name", "box-1", "--threads", "4"}));
  const Names bounded = arguments_of({"box-1", "cpu", 4, 7.9999}, {});
  EXPECT_EQ(bounded.back(), "8.000") << "a share of the memory that they have together";
  EXPECT_EQ(bounded[bounded.size() - 2], "--memory_gib");
}

TEST(Fleet, WaitsForAllAndReturnsTheWorstStatus) {
  EXPECT_EQ(run_fleet("/bin/sh", {{"-c", "exit 0"}, {"-c", "exit 0"}}), 0);
  EXPECT_EQ(run_fleet("/bin/sh", {{"-c", "exit 2"}, {"-c", "sleep 0.1"}, {"-c", "exit 1"}}), 2);
  EXPECT_EQ(run_fleet("/no/such/program", {{}}), 127);
}

}  // namespace
}  // namespace holdfast::worker

#include "worker/process/options.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "worker/session/data_files.h"

namespace holdfast::worker {
namespace {

class Options : public ::testing::Test {
 protected:
  void SetUp() override {
    for (const char* name : kVariables) unsetenv(name);
  }
  void TearDown() override { SetUp(); }

  static tl::expected<WorkerOptions, EarlyEnd> parse(std::vector<const char*> arguments) {
    arguments.insert(arguments.begin(), "holdfast-worker");
    return parse_options(static_cast<int>(arguments.size()), arguments.data());
  }
  static constexpr const char* kVariables[] = {
      "HOLDFAST_SERVER",    "HOLDFAST_TOKEN", "HOLDFAST_INTERFACE", "HOLDFAST_THREADS", "NCCL_SOCKET_IFNAME",
      "NCCL_TIMEOUT",       "NCCL_DEBUG",     "MASTER_ADDR",        "LOCAL_RANK",       "SLURM_LOCALID",
      "HOLDFAST_LOG_LEVEL", "HOLDFAST_FAULT", "HOLDFAST_DRILLS",    "NCCL_SHM_DISABLE"};
};

TEST_F(Options, HaveDefaultsForAServiceOnThisMachine) {
  const auto options = parse({});
  ASSERT_TRUE(options) << options.error().text;
  EXPECT_EQ(options->server, "http://127.0.0.1:7070");
  EXPECT_EQ(options->server_host, "127.0.0.1");
  EXPECT_EQ(options->device, "auto");
  EXPECT_GE(options->threads, 1);
  EXPECT_EQ(options->log_level, "info");
}

TEST_F(Options, PreferTheFlagToOurVariableToNccls) {
  setenv("NCCL_SOCKET_IFNAME", "nccl0", 1);
  EXPECT_EQ(parse({})->interface, "nccl0");
  setenv("HOLDFAST_INTERFACE", "ours0", 1);
  EXPECT_EQ(parse({})->interface, "ours0");
  EXPECT_EQ(parse({"--interface", "flag0"})->interface, "flag0");
}

TEST_F(Options, SayWhatTheFlagsOfTorchrunAreHere) {
  const auto options = parse({"--nproc-per-node", "2", "--max_iters=5"});
  ASSERT_FALSE(options);
  EXPECT_EQ(options.error().status, 2);
  EXPECT_NE(options.error().text.find(
                "--nproc-per-node: torchrun's nproc_per_node is not taken here: `holdfast-worker --devices all`"),
            std::string::npos)
      << options.error().text;
  EXPECT_NE(options.error().text.find("--max_iters: nanoGPT's max_iters is total_steps here, a flag of `holdfast submit`"),
            std::string::npos)
      << options.error().text;
}

TEST_F(Options, TakeTorchrunsMasterAndRankWhereNothingElseIsSaid) {
  setenv("MASTER_ADDR", "10.0.0.1", 1);
  EXPECT_EQ(parse({})->server, "http://10.0.0.1:7070");
  setenv("MASTER_ADDR", "fd00::1", 1);
  EXPECT_EQ(parse({})->server, "http://[fd00::1]:7070");
  setenv("HOLDFAST_SERVER", "http://10.0.0.2:7070", 1);
  EXPECT_EQ(parse({})->server, "http://10.0.0.2:7070");
  EXPECT_EQ(parse({"--server", "http://10.0.0.3:7070"})->server, "http://10.0.0.3:7070");
  setenv("LOCAL_RANK", "3", 1);
  setenv("SLURM_LOCALID", "1", 1);
  EXPECT_EQ(parse({})->local_rank, 3);
  unsetenv("LOCAL_RANK");
  EXPECT_EQ(parse({})->local_rank, 1);
  EXPECT_EQ(parse({"--device", "hip:1"})->local_rank, -1);
}

TEST_F(Options, TakeAPortForTheRingOrARangeOfThem) {
  EXPECT_EQ(parse({})->ring_ports.last, 0) << "one that the system picks";
  EXPECT_EQ(parse({"--ring_port", "7072"})->ring_ports.last, 7072);
  EXPECT_EQ(parse({"--ring_port", "7072-7087"})->ring_ports.first, 7072);
  EXPECT_EQ(parse({"--ring-port=7072-7087"})->ring_ports.last, 7087);
  for (const char* wrong : {"0", "70000", "7087-7072", "7072-", "-7072", "a", "7072:7087"}) {
    const auto options = parse({"--ring_port", wrong});
    ASSERT_FALSE(options) << wrong;
    EXPECT_NE(options.error().text.find("is neither a port from 1 to 65535 nor a range"), std::string::npos)
        << options.error().text;
  }
}

TEST_F(Options, TakeAListOfDevicesOrOneDevice) {
  EXPECT_EQ(parse({"--devices", "cpu:2"})->devices, "cpu:2");
  EXPECT_NE(parse({"--devices", "two"}).error().text.find("is not all, numbers of GPUs such as 0,1,3, or cpu:N"),
            std::string::npos);
  EXPECT_NE(parse({"--devices", "all", "--device", "cpu"}).error().text.find("not both"), std::string::npos);
}

TEST_F(Options, TakeTheOneJobToWorkFor) {
  EXPECT_EQ(parse({})->only_job, "");
  EXPECT_EQ(parse({"--job", "j7"})->only_job, "j7");
  EXPECT_NE(parse({"--job", ""}).error().text.find("expected a job's id"), std::string::npos)
      << "of a variable that is not set";
}

TEST_F(Options, TakeHyphensForUnderscores) {
  const std::string folder = std::filesystem::temp_directory_path().string();
  const auto options = parse({"--data-root", folder.c_str(), "--log-level", "debug"});
  ASSERT_TRUE(options) << options.error().text;
  EXPECT_EQ(options->data_root, folder);
}

TEST_F(Options, TakeLabelsThatJobsCanRequire) {
  EXPECT_TRUE(parse({})->labels.empty());
  const std::map<std::string, std::string> labels = {{"rack", "3"}, {"zone", "a=b"}};
  EXPECT_EQ(parse({"--labels", "zone=a=b,rack=3"})->labels, labels);
  EXPECT_EQ(parse({"--labels", "zone=a=b", "--labels", "rack=3"})->labels, labels);
  for (const char* wrong : {"zone", "=a", "a=1,a=2", "device=hip", "a b=c"}) {
    const auto options = parse({"--labels", wrong});
    ASSERT_FALSE(options) << wrong;
    EXPECT_EQ(options.error().status, 2);
    EXPECT_NE(options.error().text.find("--labels: "), std::string::npos) << options.error().text;
  }
}

TEST_F(Options, TakeDrillsOnlyFromAFolderThatIsThere) {
  const std::string folder = std::filesystem::temp_directory_path().string();
  EXPECT_EQ(parse({})->drills, "");
  setenv("HOLDFAST_DRILLS", folder.c_str(), 1);
  EXPECT_EQ(parse({})->drills, folder);
  const auto missing = parse({"--drills", "/no/such/folder"});
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().text, "--drills: /no/such/folder is not a folder on this machine\n");
}

TEST_F(Options, HonourNcclTimeoutAndDebug) {
  setenv("NCCL_TIMEOUT", "90", 1);
  setenv("NCCL_DEBUG", "WARN", 1);
  const auto options = parse({});
  ASSERT_TRUE(options) << options.error().text;
  EXPECT_EQ(options->collective_timeout, std::chrono::seconds(90));
  EXPECT_EQ(options->log_level, "warning");
}

TEST_F(Options, ShareMemoryUnlessToldNotTo) {
  EXPECT_TRUE(parse({})->shared_memory);
  EXPECT_FALSE(parse({"--no_shared_memory"})->shared_memory);
  setenv("NCCL_SHM_DISABLE", "1", 1);
  EXPECT_FALSE(parse({})->shared_memory);
  setenv("NCCL_SHM_DISABLE", "0", 1);
  EXPECT_TRUE(parse({})->shared_memory);
}

TEST_F(Options, NameTheBadValueAndWhatWasExpected) {
  const auto wrong = [](std::vector<const char*> arguments) {
    const auto options = parse(std::move(arguments));
    EXPECT_FALSE(options);
    if (options) return std::string();
    EXPECT_EQ(options.error().status, 2);
    return options.error().text;
  };
  for (const char* device : {"tpu", "hip:", "hip:-1", "hip:1x", "hip1", ""})
    EXPECT_NE(wrong({"--device", device}).find("is not auto, cpu, hip, hip:N"), std::string::npos) << device;
  EXPECT_NE(wrong({"--threads", "0"}).find("from 1 to"), std::string::npos);
  for (const char* memory : {"0", "-2", "2GiB", "nan", "inf"})
    EXPECT_NE(wrong({"--memory_gib", memory}).find("is not a number of GiB from 0.01"), std::string::npos) << memory;
  EXPECT_NE(wrong({"--threads", "many"}).find("\"many\""), std::string::npos);
  EXPECT_NE(wrong({"--server", "10.0.0.1"}).find("http://"), std::string::npos);
  EXPECT_NE(wrong({"--name", "a b"}).find("--name"), std::string::npos);
  EXPECT_NE(wrong({"--data_root", "/nonexistent/folder"}).find("/nonexistent/folder"), std::string::npos);
  EXPECT_NE(wrong({"--log_level", "loud"}).find("loud"), std::string::npos);
  EXPECT_NE(wrong({"--no_such_flag"}).find("--help"), std::string::npos);
  setenv("HOLDFAST_FAULT", "explode@step", 1);
  EXPECT_NE(wrong({}).find("HOLDFAST_FAULT"), std::string::npos);
}

TEST_F(Options, HelpShowsExamples) {
  const auto options = parse({"--help"});
  ASSERT_FALSE(options);
  EXPECT_EQ(options.error().status, 0);
  EXPECT_NE(options.error().text.find("holdfast-worker --server http://"), std::string::npos);
}

TEST_F(Options, ReadTheHostOutOfAnyUrl) {
  EXPECT_EQ(parse({"--server", "https://[fd00::1]:7070/"})->server_host, "fd00::1");
  EXPECT_EQ(parse({"--server", "http://service.lan"})->server_host, "service.lan");
}

class DataRoot : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = (std::filesystem::temp_directory_path() / "root-XXXXXX").string();
    folder_ = std::filesystem::canonical(mkdtemp(name.data()));
    std::filesystem::create_directories(folder_ / "data/text");
    std::ofstream(folder_ / "data/text/train.bin") << "x";
    std::ofstream(folder_ / "secret.bin") << "x";
    std::filesystem::create_symlink(folder_ / "secret.bin", folder_ / "data/link.bin");
    root_ = (folder_ / "data").string();
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::filesystem::path folder_;
  std::string root_;
};

TEST_F(DataRoot, HoldsRelativeAndAbsolutePathsBelowIt) {
  EXPECT_EQ(resolve_data_path("text/train.bin", root_).value(), root_ + "/text/train.bin");
  EXPECT_EQ(resolve_data_path(root_ + "/text/train.bin", root_).value(), root_ + "/text/train.bin");
  EXPECT_EQ(resolve_data_path("text/../text/train.bin", root_).value(), root_ + "/text/train.bin");
}

TEST_F(DataRoot, IsNotLeft) {
  for (const std::string path : {"../secret.bin", "/etc/passwd", "text/../../secret.bin", "link.bin"}) {
    const auto resolved = resolve_data_path(path, root_);
    ASSERT_FALSE(resolved) << *resolved;
    EXPECT_NE(resolved.error().find("outside this worker's --data_root"), std::string::npos) << resolved.error();
  }
  EXPECT_FALSE(resolve_data_path(root_ + "-other/x", root_)) << "a folder that only begins with the same letters";
}

TEST_F(DataRoot, IsNotNeeded) {
  EXPECT_EQ(resolve_data_path("any/where.bin", "").value(), "any/where.bin");
}

}  // namespace
}  // namespace holdfast::worker

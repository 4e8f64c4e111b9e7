// The memory that a worker may take, from a flag and from files as the kernel writes them; and jobs that need more.
#include "worker/session/memory_limit.h"

#include <gmock/gmock.h>

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <new>

#include "tests/worker/step/ranks_of_threads.h"

namespace holdfast::worker {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

constexpr double kGib = 1 << 30;

class Cgroups : public testing::Test {
 protected:
  Cgroups() { write(own_, "0::/lab/workers/w1\n"); }
  ~Cgroups() override { fs::remove_all(root_); }

  static void write(const fs::path& file, const std::string& text) {
    fs::create_directories(file.parent_path());
    std::ofstream(file) << text;
  }
  void limit(const std::string& group, const std::string& text) { write(root_ / "groups" / group / "memory.max", text); }
  MemoryLimit found(double gib) const { return memory_limit(gib, root_ / "groups", own_); }

  fs::path root_ = fs::temp_directory_path() / ("holdfast-cgroups-" + std::to_string(getpid()));
  fs::path own_ = root_ / "own";
};

TEST_F(Cgroups, TheLowestLimitCounts) {
  EXPECT_EQ(found(0).bytes, 0);
  EXPECT_EQ(found(2).bytes, 2 * kGib);
  EXPECT_EQ(found(2).name, "--memory_gib 2");
  limit("lab/workers/w1", "max\n");
  EXPECT_EQ(found(0).bytes, 0);
  limit("lab", "3221225472\n");
  limit("lab/workers", "4294967296\n");
  EXPECT_EQ(found(0).bytes, 3 * kGib);
  EXPECT_EQ(found(8).name, "its memory cgroup's limit of 3.00 GiB");
  EXPECT_EQ(found(2.5).bytes, 2.5 * kGib);
  EXPECT_EQ(memory_limit(0, root_ / "groups", root_ / "nowhere").bytes, 0);
}

rendezvous::JobSpec small_gpt2() {
  rendezvous::JobSpec spec;
  spec.n_layer = 12;
  spec.n_embd = 768;
  spec.n_head = 12;
  spec.vocab_size = 50257;
  spec.block_size = 1024;
  spec.batch_size = 1;
  spec.dtype = "bfloat16";
  spec.wire_dtype = "int16";
  spec.nodes = 4;
  spec.min_nodes = 4;
  return spec;
}

TEST(RefusalForMemory, SaysHowMuchForWhatAndWhatWouldFit) {
  auto spec = small_gpt2();
  EXPECT_EQ(refusal_for_memory(spec, true, {}), "");
  EXPECT_EQ(refusal_for_memory(spec, true, {8 * kGib, "--memory_gib 8"}), "");
  const std::string said = refusal_for_memory(spec, true, {4 * kGib, "--memory_gib 4"});
  EXPECT_THAT(said, HasSubstr("with 4 workers a worker of this job needs "));
  EXPECT_THAT(said, HasSubstr("AdamW's two moments 0.93 GiB"));
  EXPECT_THAT(said, HasSubstr("above --memory_gib 4: --shard "));
  for (const char* shard : {"optimizer", "gradients", "parameters"}) {
    spec.shard = shard;
    if (said.find(std::string("--shard ") + shard) == std::string::npos) continue;
    EXPECT_EQ(refusal_for_memory(spec, true, {4 * kGib, ""}), "") << "it said that this fits";
  }
}

TEST(RefusalForMemory, SaysWhatWasNeededWhereTheSystemGivesNone) {
  const TestData data;
  auto spec = small_gpt2();
  spec.min_nodes = 1;
  spec.train_data_path = data.path("train.bin");
  spec.valid_data_path.clear();
  spec.block_size = 8;
  const auto none = [](kernels::DType) -> std::unique_ptr<kernels::DeviceOps> { throw std::bad_alloc(); };
  const auto prepared = prepare_session("j1", spec, {}, none);
  ASSERT_FALSE(prepared);
  EXPECT_THAT(prepared.error(), HasSubstr("the system gave no memory: with 1 worker a worker of this job needs "));
  EXPECT_THAT(prepared.error(), HasSubstr("(ulimit -v, vm.overcommit_memory)"));
}

TEST(RefusalForMemory, CountsOnTheFewestWorkersThatTheJobMayHave) {
  auto spec = small_gpt2();
  spec.shard = "gradients";
  spec.min_nodes = 1;
  const MemoryLimit limit{3.6 * kGib, "--memory_gib 3.6"};
  const std::string said = refusal_for_memory(spec, true, limit);
  EXPECT_THAT(said, HasSubstr("with 1 worker a worker of this job needs "));
  const size_t at = said.find(": --min_nodes ");
  ASSERT_NE(at, std::string::npos) << said;
  spec.min_nodes = said[at + 14] - '0';
  EXPECT_GT(spec.min_nodes, 1);
  EXPECT_EQ(refusal_for_memory(spec, true, limit), "");
}

TEST(RefusalForMemory, ProposesNothingThatTheJobCannotBe) {
  auto spec = small_gpt2();
  EXPECT_THAT(refusal_for_memory(spec, true, {0.5 * kGib, "x"}), HasSubstr("--recompute block"));
  spec.sync_every = 4;
  EXPECT_THAT(refusal_for_memory(spec, true, {4 * kGib, "x"}), HasSubstr("choose a smaller --batch_size"));
}

TEST(RefusalForMemory, WithAGpuCountsTheHostsPartAlone) {
  const auto spec = small_gpt2();
  EXPECT_EQ(refusal_for_memory(spec, false, {4 * kGib, "x"}), "");
  EXPECT_THAT(refusal_for_memory(spec, false, {1 * kGib, "x"}), HasSubstr("copies for the ring"));
}

}  // namespace
}  // namespace holdfast::worker

// The worker around a device whose memory the host cannot touch: the hip op set on the CPU (tests/kernels/shim), behind a
// fence. The numbers are same_bits_test's affair; these tests go every way that bytes take between device, ring and disk.
#include <gtest/gtest.h>
#include <hip/hip_runtime.h>

#include <cstdlib>

#include "tests/worker/step/same_bits_fixture.h"

namespace holdfast::worker {
namespace {

class GpuRanks : public SameBits {
 protected:
  GpuRanks() {
    spec = tiny_spec(data);
    spec.global_batch_size = 6;  // 3 microbatches
    spec.total_steps = 6;
    spec.warmup_steps = 2;
  }
  std::string at(int world_size, const std::string& overlap) {
    spec.overlap = overlap;
    return undisturbed(spec, world_size);
  }
  // After the second step the scale is far too fine on every rank, so that the third overflows.
  void make_it_overflow() {
    tamper = [](TestRank& rank, size_t, int64_t step) {
      if (step != 2) return;
      auto exponents = rank.session->state->exponents();
      for (size_t t = 0; t < exponents.size(); t += 2) exponents[t] += 9;
    };
  }

  rendezvous::JobSpec spec;
};

TEST_F(GpuRanks, HaveTheSameBitsAtAnyWorldSizeAndBesideTheBackwardPass) {
  for (const char* wire : {"int32", "int16"}) {
    spec.wire_dtype = wire;
    const std::string one = at(1, "off");
    EXPECT_EQ(at(1, "on"), one) << wire;
    for (int world_size = 2; world_size <= 3; ++world_size) {
      EXPECT_EQ(at(world_size, "on"), one) << world_size << " ranks, " << wire;
      EXPECT_EQ(at(world_size, "off"), one) << world_size << " ranks, " << wire;
    }
  }
}

TEST_F(GpuRanks, AskForNoMoreMemoryThanWhenTheyWerePrepared) {
  for (const char* overlap : {"off", "on"}) {
    spec.overlap = overlap;
    Ranks ranks(spec, service);
    for (int i = 0; i < 2; ++i) ranks.add();
    const size_t prepared = shim::bytes_on_device();
    run_to_end(ranks, Ranks::initial());
    EXPECT_EQ(shim::bytes_on_device(), prepared) << "what does not fit is to refuse the job, not to end its first step";
  }
}

TEST_F(GpuRanks, HaveThemOpByOpAndInOneStream) {
  const int64_t before = shim::graphs_launched();
  const std::string one = at(1, "off");
  EXPECT_EQ(shim::graphs_launched() - before, 3 * spec.total_steps + 1)
      << "each microbatch of each step, and the one that the first exponents are of; preparing was the first pass";
  EXPECT_EQ(at(2, "on"), one);
  EXPECT_GT(shim::graphs_launched() - before, 3 * spec.total_steps + 2) << "those whose gradients are not sent meanwhile";
  for (const char* name : {"HOLDFAST_GPU_GRAPHS", "HOLDFAST_GPU_SIDE_STREAM"}) {
    setenv(name, "0", 1);
    const int64_t launched = shim::graphs_launched();
    EXPECT_EQ(at(1, "off"), one) << name;
    EXPECT_EQ(at(2, "on"), one) << name;
    EXPECT_EQ(shim::graphs_launched(), launched);
  }
  for (const char* name : {"HOLDFAST_GPU_GRAPHS", "HOLDFAST_GPU_SIDE_STREAM"}) unsetenv(name);
}

TEST_F(GpuRanks, HaveThemWhenGradientsOverflow) {
  make_it_overflow();
  const std::string one = at(1, "off");
  EXPECT_FALSE(events("gradients_repacked").empty());
  EXPECT_EQ(at(2, "on"), one);
  EXPECT_EQ(at(2, "off"), one);
}

TEST_F(GpuRanks, HaveThemWhenOneIsLost) {
  spec.overlap = "on";
  EXPECT_EQ(with_a_rank_lost(spec, 2), undisturbed(spec, 1));
}

TEST_F(GpuRanks, TakeTheStateOfOthersAndOfACheckpoint) {
  const std::string one = at(1, "off");
  Ranks first(spec, service);
  const auto checkpoint = checkpoint_after(3, spec, first);

  Ranks others(spec, service);
  for (int i = 0; i < 3; ++i) others.add();
  run_to_end(others, checkpoint);
  EXPECT_EQ(others.hash(), one);

  first.add();  // knows nothing
  first.on_commit = tamper;
  run_to_end(first, Ranks::memory(3));
  EXPECT_EQ(first.hash(), one);
  EXPECT_EQ(first.agreements()[1].how, StateAgreement::How::kPieces);
}

TEST_F(GpuRanks, TakeTheGradientOfTheStepTheyMissed) {
  const std::string one = at(1, "off");
  Ranks ranks(spec, service);
  run_apart(ranks, spec, 3, {1});
  ranks.on_commit = tamper;
  run_to_end(ranks, Ranks::memory(3));
  for (const StateAgreement& agreed : ranks.agreements()) EXPECT_EQ(agreed.how, StateAgreement::How::kGradient);
  EXPECT_EQ(ranks.hash(), one);
}

TEST_F(GpuRanks, HaveTheSameBitsInEachWayToDivideTheState) {
  spec.n_layer = 2;
  spec.dtype = "bfloat16";
  const std::string one = at(1, "off");
  for (const char* shard : {"optimizer", "gradients", "parameters"}) {
    spec.shard = shard;
    spec.checkpoint_store = data.path(shard);
    EXPECT_EQ(with_a_rank_lost(spec, 2), one) << shard;
  }
}

TEST_F(GpuRanks, HaveThemWhenDividedGradientsOverflow) {
  make_it_overflow();
  const std::string one = at(1, "off");
  spec.replicas = 1;
  for (const char* shard : {"optimizer", "gradients", "parameters"}) {
    spec.shard = shard;
    EXPECT_EQ(at(3, "on"), one) << shard;
  }
}

TEST_F(GpuRanks, HaveThemWithAHeadOfItsOwn) {
  spec.tied_head = "off";
  make_it_overflow();
  const std::string one = at(1, "off");
  EXPECT_EQ(at(2, "on"), one);
  spec.replicas = 1;
  for (const char* shard : {"gradients", "parameters"}) {
    spec.shard = shard;
    EXPECT_EQ(at(3, "on"), one) << shard;
  }
}

TEST_F(GpuRanks, ReadTheirPartsOfACheckpoint) {
  spec.n_layer = 2;
  spec.dtype = "bfloat16";
  const std::string one = at(1, "off");
  Ranks first(spec, service);
  const auto checkpoint = checkpoint_after(3, spec, first);
  for (const char* shard : {"optimizer", "gradients", "parameters"}) {
    spec.shard = shard;
    Ranks others(spec, service, 3);
    run_to_end(others, checkpoint);
    EXPECT_EQ(others.hash(), one) << shard;
  }
}

TEST_F(GpuRanks, HaveTheSameBitsWithTheirPartsInTheHostsMemory) {
  spec.n_layer = 2;
  const std::pair<const char*, const char*> cases[] = {{"float32", "optimizer"}, {"bfloat16", "parameters"}};
  for (const auto& [dtype, shard] : cases) {
    SCOPED_TRACE(std::string(dtype) + ", " + shard);
    spec.dtype = dtype;
    spec.shard = spec.offload = "none";
    spec.checkpoint_store = data.path(std::string(shard) + "-whole");
    const std::string one = at(1, "off");
    Ranks first(spec, service);
    const auto checkpoint = checkpoint_after(3, spec, first);
    spec.shard = shard;
    spec.offload = "optimizer";
    Ranks ranks(spec, service, 3);
    run_to_end(ranks, checkpoint);
    EXPECT_EQ(ranks.hash(), one);
    spec.checkpoint_store = data.path(shard);
    EXPECT_EQ(with_a_rank_lost(spec, 2), one);
  }
}

TEST_F(GpuRanks, HaveLessOnTheDeviceWithTheirPartsInTheHostsMemory) {
  spec.dtype = "bfloat16";
  spec.shard = "optimizer";
  spec.total_steps = 2;
  const auto taken = [&] {
    Ranks ranks(spec, service, 2);
    run_to_end(ranks, Ranks::initial());
    return shim::bytes_on_device();
  };
  const size_t device = taken();
  spec.offload = "optimizer";
  EXPECT_LE(taken() + 2 * 12 * static_cast<size_t>(Ranks(spec, service, 1)[0].session->model->table().total), device)
      << "each of two has 12 bytes a parameter less";
}

TEST_F(GpuRanks, TrainWithEachFloatWireType) {
  spec.reduction = "float";
  for (const char* wire : {"float32", "bfloat16", "float16", "int8"}) {
    spec.wire_dtype = wire;
    EXPECT_EQ(at(2, "on"), at(2, "off")) << wire;
  }
}

TEST_F(GpuRanks, TakeLocalSteps) {
  spec.sync_every = 2;
  spec.global_batch_size = 8;
  EXPECT_EQ(at(2, "off"), at(1, "off"));
}

}  // namespace
}  // namespace holdfast::worker

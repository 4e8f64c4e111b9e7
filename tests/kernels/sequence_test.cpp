// A sequence of the hip op set's ops as a graph: it does what its ops do, with what the memory holds by then, and whatever the
// runtime refuses. The CPU plays the GPU (rung 3).
#include <gtest/gtest.h>
#include <hip/hip_runtime.h>

#include <cstdlib>
#include <functional>
#include <memory>
#include <stdexcept>
#include <vector>

#include "kernels/ops.h"
#include "tests/kernels/hip_device.h"

namespace holdfast::kernels {
namespace {

constexpr int64_t N = 96, C = 24;

// The gradients of a linear layer and of the LayerNorm before it, which need scratch, and a second stream.
class Sequence : public ::testing::Test {
 protected:
  Sequence() {
    testing::shuffle_with(5);
    make();
  }
  ~Sequence() override {
    free_all();
    unsetenv("HOLDFAST_GPU_GRAPHS");
  }

  void make() {
    testing::use_wave(32);
    ops = make_hip_ops(DType::kFloat32, 0);
    for (float** x : {&in, &dout, &din, &dresidual}) *x = floats(N * C);
    for (float** x : {&weight, &dweight}) *x = floats(C * C);
    for (float** x : {&bias, &dbias, &dln_weight, &dln_bias}) *x = floats(C);
    for (float** x : {&mean, &rstd}) *x = floats(N);
    sequence = ops->make_sequence();
    fill(1);
  }
  void free_all() {
    if (ops == nullptr) return;
    sequence.reset();
    for (float* x : memory) ops->release(x);
    memory.clear();
    ops.reset();
  }
  float* floats(int64_t count) {
    memory.push_back(static_cast<float*>(ops->allocate(static_cast<size_t>(count) * sizeof(float))));
    return memory.back();
  }
  void fill(int number) {
    float next = 0.1F * static_cast<float>(number);
    for (float* x : memory) {
      const auto count = static_cast<size_t>(x == in || x == dout || x == din || x == dresidual ? N * C
                                             : x == weight || x == dweight                      ? C * C
                                             : x == mean || x == rstd                           ? N
                                                                                                : C);
      std::vector<float> values(count);
      for (float& value : values) value = next = next > 1 ? next - 1.9F : next + 0.37F;
      ops->copy_to_device(x, values.data(), values.size() * sizeof(float));
    }
  }
  void queue() {
    auto* const act = reinterpret_cast<Act*>(in);
    ops->matmul_backward(reinterpret_cast<Act*>(din), dweight, dbias, reinterpret_cast<Act*>(dout), act, nullptr,
                         reinterpret_cast<Act*>(weight), N, C, C);
    ops->layernorm_backward(dresidual, reinterpret_cast<Act*>(dout), dln_weight, dln_bias, reinterpret_cast<Act*>(din), in,
                            bias, mean, rstd, N, C);
  }
  void run(uint64_t variant = 0) {
    sequence->run(variant, [this] { queue(); });
  }
  std::vector<float> results() {
    std::vector<float> all;
    const auto fetch = [&](const float* x, int64_t count) {
      std::vector<float> values(static_cast<size_t>(count));
      ops->copy_to_host(values.data(), x, values.size() * sizeof(float));
      all.insert(all.end(), values.begin(), values.end());
    };
    fetch(dweight, C * C);
    fetch(dbias, C);
    fetch(dln_weight, C);
    fetch(dresidual, N * C);
    fetch(dout, N * C);
    return all;
  }
  // The results of the ops without a sequence.
  std::vector<float> expected(int number) {
    fill(number);
    queue();
    return results();
  }
  void expect_right(int number, const char* when) {
    const std::vector<float> right = expected(number);
    fill(number);
    run();
    EXPECT_EQ(results(), right) << when;
  }

  std::unique_ptr<DeviceOps> ops;
  std::unique_ptr<OpSequence> sequence;
  std::vector<float*> memory;
  float *in, *dout, *din, *dresidual, *weight, *dweight, *bias, *dbias, *dln_weight, *dln_bias, *mean, *rstd;
};

TEST_F(Sequence, IsRecordedTheSecondTimeAndReplayedWithWhatTheMemoryHolds) {
  const int64_t before = shim::graphs_launched();
  for (int number = 1; number <= 5; ++number) expect_right(number, "");
  EXPECT_EQ(sequence->replays(), 4) << "the first run brings scratch to its size";
  EXPECT_EQ(shim::graphs_launched() - before, 4);
  EXPECT_EQ(sequence->refusal(), "");
}

TEST_F(Sequence, CostsTheHostOneCall) {
  run();
  run();
  const int64_t before = shim::calls_so_far();
  run();
  EXPECT_EQ(shim::calls_so_far() - before, 1);
}

TEST_F(Sequence, BeginsAnewWithOtherArguments) {
  for (uint64_t variant : {1, 1, 2, 2, 2, 1}) run(variant);
  EXPECT_EQ(sequence->replays(), 3) << "each variant's first run in a row is not one";
  expect_right(3, "after them");
}

TEST_F(Sequence, BeginsAnewWhereScratchHasAnotherPlace) {
  run();
  run();
  float* const many = static_cast<float*>(ops->allocate(sizeof(float) << 21));
  ops->zero(many, sizeof(float) << 21);
  EXPECT_EQ(ops->sum(many, 1 << 21), 0) << "needs more scratch, which is elsewhere";
  ops->release(many);
  expect_right(2, "what was recorded uses memory that was given back");
  EXPECT_EQ(sequence->replays(), 1);
  expect_right(3, "recorded again");
  EXPECT_EQ(sequence->replays(), 2);
}

TEST_F(Sequence, ThatWaitsForTheDeviceIsRefusedAndDoneAllTheSame) {
  double sum = 0;
  const auto waits = [&] {
    queue();
    sum = ops->sum(dbias, C);
  };
  for (int number = 1; number <= 3; ++number) {
    const std::vector<float> right = expected(number);
    const double of_right = ops->sum(dbias, C);
    fill(number);
    sequence->run(0, waits);
    EXPECT_EQ(sum, of_right);
    EXPECT_EQ(results(), right);
  }
  EXPECT_EQ(sequence->replays(), 0);
  EXPECT_NE(sequence->refusal().find("not permitted when stream is capturing"), std::string::npos) << sequence->refusal();
}

// Every call on the way to the record in turn.
TEST_F(Sequence, IsDoneWhicheverCallTheRuntimeRefuses) {
  run();
  const int64_t before = shim::calls_so_far();
  run();
  const int64_t calls = shim::calls_so_far() - before;
  EXPECT_GT(calls, 12);
  int refused = 0;
  for (int64_t call = 1; call < calls; ++call) {  // the last one launches the graph
    SCOPED_TRACE(call);
    free_all();
    make();
    const std::vector<float> right = expected(7);
    run();
    fill(7);
    shim::fail_call(call, hipErrorStreamCaptureUnsupported);
    run();
    shim::fail_call(0, 0);
    EXPECT_EQ(results(), right);
    refused += sequence->refusal().empty() ? 0 : 1;
    expect_right(8, "the next one");
  }
  EXPECT_EQ(refused, calls - 2) << "only to give the record back, once it is a graph, may fail without a word";
}

TEST_F(Sequence, LeavesNothingBehindWhenItsOpsThrow) {
  struct Interrupted {};
  run();
  const auto throws = [this] {
    queue();
    throw Interrupted();
  };
  EXPECT_THROW(sequence->run(0, throws), Interrupted);
  expect_right(4, "nothing of it was done");
  EXPECT_EQ(sequence->replays(), 1);
  EXPECT_EQ(sequence->refusal(), "");
}

TEST_F(Sequence, IsNotRecordedWhereTheEnvironmentSaysSo) {
  free_all();
  setenv("HOLDFAST_GPU_GRAPHS", "0", 1);
  make();
  for (int number = 1; number <= 3; ++number) expect_right(number, "");
  EXPECT_EQ(sequence->replays(), 0);
}

TEST_F(Sequence, OfTheCpuIsItsOps) {
  const auto cpu = make_cpu_ops(DType::kFloat32, 1);
  const auto its = cpu->make_sequence();
  int calls = 0;
  for (int i = 0; i < 3; ++i) its->run(0, [&] { ++calls; });
  EXPECT_EQ(calls, 3);
  EXPECT_EQ(its->replays(), 0);
}

}  // namespace
}  // namespace holdfast::kernels

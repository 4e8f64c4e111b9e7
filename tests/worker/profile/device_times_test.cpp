// Times of ops on a device whose work is queued: the hip op set, on a GPU in a build for one, else on one that the CPU plays
// (tests/kernels/shim). There nothing is done before the host waits, so the times of the device differ wholly from the calls'.
#include <gtest/gtest.h>
#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>
#include <iterator>
#include <memory>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "model/gpt2.h"
#include "model/state/train_state.h"
#include "tests/kernels/hip_device.h"
#include "tests/model/small_model.h"
#include "worker/profile/profiler.h"
#include "worker/profile/recorder.h"
#include "worker/profile/recording_ops.h"

namespace holdfast::worker {
namespace {

#if defined(HOLDFAST_HIP_SHIM)
constexpr bool kIsPlayed = true;
#else
constexpr bool kIsPlayed = false;
#endif

constexpr model::Gpt2Config kConfig = {.n_layer = 2, .n_embd = 32, .n_head = 2, .vocab_size = 131, .block_size = 16};
constexpr model::OptimizerConfig kOptimizer = {.learning_rate = 1e-2,
                                               .min_lr = 1e-3,
                                               .warmup_steps = 2,
                                               .total_steps = 10,
                                               .weight_decay = 0.1,
                                               .beta1 = 0.9,
                                               .beta2 = 0.95,
                                               .epsilon = 1e-8,
                                               .grad_clip = 1.0};

int64_t now_ns() {
  return std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count();
}
int64_t end_of(const RecordedSpan& span) {
  return span.begin_ns + span.duration_ns;
}
bool is_of_the_device(const RecordedSpan& span) {
  return span.kind == SpanKind::kOp || span.kind == SpanKind::kCopy;
}

class DeviceTimes : public ::testing::Test {
 protected:
  void SetUp() override {
    if (ops == nullptr) GTEST_SKIP() << kernels::testing::reason_not_to_run();
    gpt2 = std::make_unique<model::Gpt2>(kConfig, *ops, 2);
    gpt2->initialize(3);
    state = std::make_unique<model::TrainState>(*gpt2, *ops);
  }
  static std::unique_ptr<kernels::DeviceOps> make_ops() {
    if (*kernels::testing::reason_not_to_run() != '\0') return nullptr;
    return kernels::make_hip_ops(kernels::DType::kFloat32, kernels::hip_devices_by_preference().front());
  }
  void train_step(int64_t number) {
    ProfiledStep profiled(profiler, number);
    const Span phase(SpanKind::kPhase, "the whole step");
    const model::Microbatch microbatch = model::random_microbatch(kConfig, 2, 1);
    gpt2->train_microbatch(microbatch.tokens, microbatch.targets);
    state->apply(kOptimizer, gpt2->gradients());
    profiled.completed();
  }
  const RecordedTrack& track(const std::string& thread) {
    const auto& tracks = recorded.at(0).recording.tracks;
    const auto found = std::ranges::find(tracks, thread, &RecordedTrack::thread);
    if (found == tracks.end()) throw std::runtime_error("there is no track " + thread);
    return *found;
  }
  static std::vector<RecordedSpan> of_the_device(const RecordedTrack& of) {
    std::vector<RecordedSpan> spans;
    std::ranges::copy_if(of.spans, std::back_inserter(spans), is_of_the_device);
    return spans;
  }

  const std::unique_ptr<kernels::DeviceOps> plain = make_ops();  // null: there is no GPU
  const std::unique_ptr<kernels::DeviceOps> ops = plain == nullptr ? nullptr : with_spans(make_ops());
  std::unique_ptr<model::Gpt2> gpt2;
  std::unique_ptr<model::TrainState> state;
  std::vector<RecordedProfile> recorded;
  Profiler profiler{[this](RecordedProfile profile) { recorded.push_back(std::move(profile)); }};
};

TEST_F(DeviceTimes, MarksArePassedInTheirOrderWhenTheirWorkIsDone) {
  float* const x = static_cast<float*>(ops->allocate(400));
  const int64_t before = now_ns();
  ops->mark();
  ops->zero(x, 400);
  ops->mark();
  ops->scale(x, x, 100, 2);
  ops->mark();
  const int64_t queued = now_ns();
  const std::vector<int64_t> passed = ops->take_marks();
  const int64_t after = now_ns();
  ASSERT_EQ(passed.size(), 3U);
  EXPECT_GE(passed[0], before);
  if (kIsPlayed) {
    EXPECT_GE(passed[0], queued) << "a call only queues";
  }
  EXPECT_LT(passed[0], passed[1]);
  EXPECT_LT(passed[1], passed[2]);
  EXPECT_LE(passed[2], after);
  EXPECT_TRUE(ops->take_marks().empty());
  ops->mark();
  EXPECT_EQ(ops->take_marks().size(), 1U) << "again, with the events of before";
  ops->release(x);
}

TEST_F(DeviceTimes, EachOpOfAStepHasItsTimeOnTheDeviceWithinTheStep) {
  train_step(1);
  profiler.want(rendezvous::ProfileOrder{"p1", 2, 2, 100'000});
  train_step(2);
  train_step(3);
  ASSERT_EQ(recorded.size(), 1U);
  const auto calls = of_the_device(track("thread")), on_device = of_the_device(track("device"));
  EXPECT_EQ(on_device.size(), track("device").spans.size());
  ASSERT_EQ(on_device.size(), calls.size());
  EXPECT_GT(calls.size(), 60U);
  for (size_t i = 0; i < calls.size(); ++i) {
    EXPECT_STREQ(on_device[i].name, calls[i].name) << i;
    EXPECT_EQ(on_device[i].kind, calls[i].kind) << i;
    EXPECT_GE(on_device[i].duration_ns, kIsPlayed ? 1 : 0) << on_device[i].name;  // a GPU's clock has half microseconds
    EXPECT_GE(on_device[i].begin_ns, calls[i].begin_ns) << on_device[i].name;
    if (i > 0) {
      EXPECT_GE(on_device[i].begin_ns, end_of(on_device[i - 1])) << on_device[i].name;
    }
  }
  size_t nested = 0;
  for (const RecordedSpan& step : track("thread").spans) {
    if (step.kind != SpanKind::kStep) continue;
    nested += static_cast<size_t>(std::ranges::count_if(
        on_device, [&](const RecordedSpan& span) { return span.begin_ns >= step.begin_ns && end_of(span) <= end_of(step); }));
  }
  EXPECT_EQ(nested, on_device.size()) << "each lies within one of the two steps";
  for (const char* name :
       {"encoder forward", "matmul forward", "attention backward", "head, loss and backward", "adamw", "copy to device"})
    EXPECT_TRUE(std::ranges::any_of(on_device, [&](const RecordedSpan& span) { return span.name == std::string(name); }))
        << name;
}

TEST_F(DeviceTimes, OpsAreNotWaitedForWhileTheyAreRecorded) {
  float* const x = static_cast<float*>(ops->allocate(400));
  start_recording(100, 100);
  ops->zero(x, 400);
  for (int i = 0; i < 5; ++i) ops->scale(x, x, 100, 2);
  const int64_t queued = now_ns();
  const Recording recording = stop_recording();
  ASSERT_EQ(recording.tracks.size(), 2U);
  const auto device = std::ranges::find(recording.tracks, std::string("device"), &RecordedTrack::thread);
  ASSERT_NE(device, recording.tracks.end());
  ASSERT_EQ(device->spans.size(), 6U);
  if (kIsPlayed) {
    EXPECT_GE(device->spans.front().begin_ns, queued) << "it works when the host waits, and it waits at the end";
  }
  ops->release(x);
}

TEST_F(DeviceTimes, NothingIsMarkedWhileNothingIsRecorded) {
  train_step(1);
  EXPECT_TRUE(ops->take_marks().empty());
}

TEST_F(DeviceTimes, TheBitsAreThoseOfAModelThatNobodyWatched) {
  profiler.want(rendezvous::ProfileOrder{"p1", 1, 3, 100'000});
  for (int64_t step = 1; step <= 3; ++step) train_step(step);
  model::Gpt2 alone(kConfig, *plain, 2);
  alone.initialize(3);
  model::TrainState its(alone, *plain);
  for (int step = 0; step < 3; ++step) {
    const model::Microbatch microbatch = model::random_microbatch(kConfig, 2, 1);
    alone.train_microbatch(microbatch.tokens, microbatch.targets);
    its.apply(kOptimizer, alone.gradients());
  }
  EXPECT_EQ(state->hash(), its.hash());
}

TEST_F(DeviceTimes, OpsAreQueuedAsAWholeWhileNobodyTimesThem) {
  int step = 0;
  while (gpt2->pass().replays() == 0 && step < 3) train_step(++step);  // the first one or two bring scratch to its size
  ASSERT_EQ(gpt2->pass().replays(), 1);
  profiler.want(rendezvous::ProfileOrder{"p1", ++step, 1, 100'000});
  train_step(step);
  EXPECT_EQ(gpt2->pass().replays(), 1);
  EXPECT_GT(of_the_device(track("device")).size(), 30U);
  train_step(++step);
  EXPECT_EQ(gpt2->pass().replays(), 2);
}

#if defined(HOLDFAST_HIP_SHIM)
TEST_F(DeviceTimes, ARuntimeThatDoesNotRecordIsToldOfOnce) {
  std::ostringstream said;
  const auto before = spdlog::default_logger();
  spdlog::set_default_logger(std::make_shared<spdlog::logger>("", std::make_shared<spdlog::sinks::ostream_sink_mt>(said)));
  shim::refuse_captures(true);
  for (int step = 1; step <= 4; ++step) train_step(step);
  shim::refuse_captures(false);
  spdlog::set_default_logger(before);
  EXPECT_EQ(gpt2->pass().replays(), 0);
  const std::string words = "operation not permitted when stream is capturing";
  const size_t first = said.str().find(words);
  ASSERT_NE(first, std::string::npos) << said.str();
  EXPECT_EQ(said.str().find(words, first + 1), std::string::npos) << said.str();
}

TEST_F(DeviceTimes, ADeviceThatFailsLeavesAProfileWithoutItsTimes) {
  profiler.want(rendezvous::ProfileOrder{"p1", 1, 1, 100'000});
  {
    ProfiledStep profiled(profiler, 1);
    float* const x = static_cast<float*>(ops->allocate(400));
    ops->zero(x, 400);
    ops->release(x);
    shim::fail_call(1, hipErrorLaunchFailure);
    profiled.completed();
  }
  shim::fail_call(0, 0);
  ASSERT_EQ(recorded.size(), 1U);
  EXPECT_EQ(track("thread").spans.size(), 3U) << "the op's call, the reading that failed, the step";
  EXPECT_THROW(track("device"), std::runtime_error);
}
#endif

}  // namespace
}  // namespace holdfast::worker

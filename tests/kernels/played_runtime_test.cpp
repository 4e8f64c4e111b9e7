// The played runtime keeps what tests of streams and graphs rely on: orders that heed events and nothing else, and captures in
// which nothing is done and much is forbidden, as the vendors' documentation says.
#include <gtest/gtest.h>
#include <hip/hip_runtime.h>

#include <functional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace {

class PlayedRuntime : public ::testing::Test {
 protected:
  PlayedRuntime() {
    for (hipStream_t* stream : {&one, &other})
      EXPECT_EQ(hipStreamCreateWithPriority(stream, hipStreamNonBlocking, 0), hipSuccess);
    EXPECT_EQ(hipEventCreateWithFlags(&event, hipEventDisableTiming), hipSuccess);
    EXPECT_EQ(hipEventCreateWithFlags(&back, hipEventDisableTiming), hipSuccess);
  }
  ~PlayedRuntime() override {
    for (const hipStream_t stream : {one, other}) EXPECT_EQ(hipStreamDestroy(stream), hipSuccess);
    for (const hipEvent_t each : {event, back}) EXPECT_EQ(hipEventDestroy(each), hipSuccess);
    (void)hipGetLastError();
  }
  hipError_t note(hipStream_t stream, char letter) {
    return shim::launch(1, 64, stream, [this, letter] {
      if (threadIdx.x == 0) noted += letter;
    });
  }
  std::string after_waiting() {
    EXPECT_EQ(hipStreamSynchronize(one), hipSuccess);
    EXPECT_EQ(hipStreamSynchronize(other), hipSuccess);
    return std::exchange(noted, "");
  }
  void begin() { ASSERT_EQ(hipStreamBeginCapture(one, hipStreamCaptureModeThreadLocal), hipSuccess); }

  hipStream_t one{}, other{};
  hipEvent_t event{}, back{};
  std::string noted;
};

TEST_F(PlayedRuntime, StreamsTakeTurnsInAnyOrderThatEventsAllow) {
  std::set<std::string> free, held;
  for (uint64_t seed = 1; seed <= 3000; ++seed) {
    shim::shuffle_with(seed);
    for (const bool holds : {false, true}) {
      for (const char letter : {'a', 'b'}) note(one, letter);
      if (holds) {
        hipEventRecord(event, one);
        hipStreamWaitEvent(other, event, 0);
      }
      for (const char letter : {'x', 'y'}) note(other, letter);
      (holds ? held : free).insert(after_waiting());
    }
  }
  EXPECT_EQ(held, std::set<std::string>{"abxy"});
  EXPECT_EQ(free, (std::set<std::string>{"abxy", "axby", "axyb", "xaby", "xayb", "xyab"}));
}

TEST_F(PlayedRuntime, AWaitCanBeLeftOut) {
  std::set<std::string> orders;
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    shim::shuffle_with(seed);
    note(one, 'a');
    hipEventRecord(event, one);
    shim::leave_out_wait(1);
    hipStreamWaitEvent(other, event, 0);
    note(other, 'x');
    orders.insert(after_waiting());
  }
  EXPECT_EQ(orders.size(), 2U);
}

TEST_F(PlayedRuntime, WhatIsCapturedIsDoneWhenItIsLaunchedAndNotBefore) {
  std::set<std::string> orders;
  begin();
  note(one, 'a');
  hipEventRecord(event, one);
  EXPECT_EQ(hipStreamWaitEvent(other, event, 0), hipSuccess) << "the other stream is captured from here on";
  note(other, 'x');
  note(one, 'b');
  hipEventRecord(back, other);
  hipStreamWaitEvent(one, back, 0);
  note(one, 'c');
  hipGraph_t graph;
  ASSERT_EQ(hipStreamEndCapture(one, &graph), hipSuccess);
  EXPECT_EQ(after_waiting(), "");
  hipGraphExec_t executable;
  ASSERT_EQ(hipGraphInstantiateWithFlags(&executable, graph, 0), hipSuccess);
  EXPECT_EQ(hipGraphDestroy(graph), hipSuccess);
  for (uint64_t seed = 1; seed <= 30; ++seed) {
    shim::shuffle_with(seed);
    ASSERT_EQ(hipGraphLaunch(executable, one), hipSuccess);
    orders.insert(after_waiting());
  }
  EXPECT_EQ(orders, (std::set<std::string>{"abxc", "axbc"}));
  EXPECT_EQ(hipGraphExecDestroy(executable), hipSuccess);
}

TEST_F(PlayedRuntime, WhatACaptureForbidsFailsAndMakesItInvalid) {
  void* memory = nullptr;
  ASSERT_EQ(hipMalloc(&memory, 64), hipSuccess);
  hipEventRecord(back, other);
  void* fresh = nullptr;
  const std::vector<std::pair<const char*, std::function<hipError_t()>>> calls = {
      {"hipMalloc",
       [&] {
         const hipError_t error = hipMalloc(&fresh, 64);
         return error == hipSuccess ? hipFree(fresh) : error;
       }},
      {"hipFree", [&] { return hipFree(memory); }},
      {"hipHostMalloc",
       [&] {
         const hipError_t error = hipHostMalloc(&fresh, 64, hipHostMallocDefault);
         return error == hipSuccess ? hipHostFree(fresh) : error;
       }},
      {"hipStreamSynchronize", [&] { return hipStreamSynchronize(one); }},
      {"hipStreamSynchronize of another", [&] { return hipStreamSynchronize(other); }},
      {"hipEventQuery", [&] { return hipEventQuery(back); }},
      {"hipEventSynchronize", [&] { return hipEventSynchronize(back); }},
  };
  for (const auto& [name, call] : calls) {
    SCOPED_TRACE(name);
    begin();
    note(one, 'a');
    EXPECT_EQ(call(), hipErrorStreamCaptureUnsupported);
    hipGraph_t graph;
    EXPECT_EQ(hipStreamEndCapture(one, &graph), hipErrorStreamCaptureInvalidated);
    EXPECT_EQ(graph, nullptr);
    EXPECT_EQ(after_waiting(), "");
    begin();
    std::thread elsewhere([&, call = std::cref(call)] {
      if (std::string(name) != "hipStreamSynchronize" && std::string(name) != "hipFree") {
        EXPECT_EQ(call(), hipSuccess) << "of another thread";
      }
    });
    elsewhere.join();
    EXPECT_EQ(hipStreamEndCapture(one, &graph), hipSuccess);
    hipGraphDestroy(graph);
  }
  EXPECT_EQ(hipFree(memory), hipSuccess);
}

TEST_F(PlayedRuntime, AnEventOfACaptureIsNotForTheHost) {
  begin();
  hipEventRecord(event, one);
  EXPECT_EQ(hipEventQuery(event), hipErrorCapturedEvent);
  hipGraph_t graph;
  EXPECT_EQ(hipStreamEndCapture(one, &graph), hipErrorStreamCaptureInvalidated);
}

TEST_F(PlayedRuntime, ACaptureThatAnotherStreamHasNotComeBackToIsUnjoined) {
  begin();
  hipEventRecord(event, one);
  hipStreamWaitEvent(other, event, 0);
  note(other, 'x');
  hipGraph_t graph;
  EXPECT_EQ(hipStreamEndCapture(one, &graph), hipErrorStreamCaptureUnjoined);
  EXPECT_EQ(after_waiting(), "");
}

TEST_F(PlayedRuntime, ACaptureCannotWaitForWhatIsOutsideIt) {
  hipEventRecord(event, other);
  begin();
  EXPECT_EQ(hipStreamWaitEvent(one, event, 0), hipErrorStreamCaptureIsolation);
  hipGraph_t graph;
  EXPECT_EQ(hipStreamEndCapture(one, &graph), hipErrorStreamCaptureInvalidated);
}

}  // namespace

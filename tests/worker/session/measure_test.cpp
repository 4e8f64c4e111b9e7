// A device is measured with all of a job's recipe that takes time.
#include "worker/session/measure.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string_view>

#include "worker/profile/recorder.h"
#include "worker/profile/recording_ops.h"

namespace holdfast::worker {
namespace {

// Calls of an op in each pass of a device that is measured with these fields of a job, and a tiny model.
int64_t calls_a_pass(std::string_view op, const nlohmann::json& recipe) {
  nlohmann::json fields = {{"n_layer", 1},    {"n_embd", 16},    {"n_head", 2},       {"vocab_size", 64},
                           {"block_size", 8}, {"batch_size", 1}, {"dtype", "float32"}};
  fields.update(recipe);
  start_recording(100'000, 1);
  const auto said =
      measure_device(fields.dump(), [](kernels::DType dtype) { return with_spans(kernels::make_ref_ops(dtype)); });
  const Recording recording = stop_recording();
  if (!said) {
    ADD_FAILURE() << said.error();
    return -1;
  }
  EXPECT_EQ(recording.dropped, 0);
  int64_t calls = 0;
  for (const RecordedTrack& track : recording.tracks) {
    for (const RecordedSpan& span : track.spans) calls += span.name == op ? 1 : 0;
  }
  return calls / (nlohmann::json::parse(*said)["passes"].get<int64_t>() + 1);  // and the first one, which is not counted
}

TEST(MeasuringADevice, IsWithTheJobsDropout) {
  EXPECT_EQ(calls_a_pass("dropout", nlohmann::json::object()), 0);
  EXPECT_EQ(calls_a_pass("dropout", {{"dropout", 0.2}}), 6) << "the embedding, what attention and MLP add; and all back";
}

TEST(MeasuringADevice, IsWithoutTheGradientsOfBiasesThatAreOff) {
  EXPECT_EQ(calls_a_pass("zero", {{"biases", "off"}}), calls_a_pass("zero", nlohmann::json::object()) + 7)
      << "six of a layer, and the last LayerNorm's";
}

}  // namespace
}  // namespace holdfast::worker

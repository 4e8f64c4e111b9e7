#include "worker/profile/recording_ops.h"

#include <gtest/gtest.h>

#include <vector>

#include "worker/profile/recorder.h"

namespace holdfast::worker {
namespace {

TEST(RecordingOps, ComputesTheSameAndRecordsEachOp) {
  const auto plain = kernels::make_ref_ops(kernels::DType::kFloat32);
  const auto recorded = with_spans(kernels::make_ref_ops(kernels::DType::kFloat32));
  const std::vector<float> x{3, -4, 12};
  EXPECT_EQ(recorded->info().kind, "ref");
  const kernels::DeviceOps::Floats of[] = {{x.data(), 3}, {x.data(), 1}};
  double sums[2];
  recorded->sums_of_squares(sums, of, 2);
  EXPECT_EQ(sums[0], 169);
  EXPECT_EQ(sums[1], 9);
  start_recording(10, 10);
  EXPECT_EQ(recorded->abs_max(x.data(), 3), 12);
  std::vector<float> doubled(3);
  recorded->scale(doubled.data(), x.data(), 3, 2);
  EXPECT_EQ(doubled, (std::vector<float>{6, -8, 24}));
  const Recording recording = stop_recording();
  ASSERT_EQ(recording.tracks.size(), 1U);
  ASSERT_EQ(recording.tracks[0].spans.size(), 2U);
  EXPECT_STREQ(recording.tracks[0].spans[0].name, "largest magnitude");
  EXPECT_STREQ(recording.tracks[0].spans[1].name, "scale");
}

}  // namespace
}  // namespace holdfast::worker

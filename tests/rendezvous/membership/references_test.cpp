// Workers that have other data, weights or numerics than a job's members: who is refused, and with which words.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/rendezvous/membership/story.h"

namespace holdfast::rendezvous {
namespace {

struct Odd {
  const char *digest, *numerics, *reduction, *expected;
};
class Refusals : public testing::TestWithParam<Odd> {};

TEST_P(Refusals, NameBothValues) {
  const Odd odd = GetParam();
  Story story;
  story.job.spec.reduction = odd.reduction;
  story.assigned("w1");
  story.assigned("w2", odd.numerics);
  story.says("w1", Phase::kPrepared);
  WorkerStatus status = story.status("w2", Phase::kPrepared, 0, -1);
  status.data_digest = odd.digest;
  story.happens(WorkerReported{"w2", status});
  const Lines refused = story.told_of("worker_refused");
  ASSERT_EQ(refused.size(), *odd.expected == '\0' ? 0u : 1u);
  if (!refused.empty()) {
    EXPECT_NE(refused[0].find(odd.expected), std::string::npos) << refused[0];
  }
  EXPECT_EQ(story.job.current.members.size(), refused.empty() ? 2u : 1u) << "the rest goes on";
}
INSTANTIATE_TEST_SUITE_P(All, Refusals,
                         testing::Values(Odd{"d2", "avx512", "exact", "train.bin has digest d2 there, d1 at the others"},
                                         Odd{"d2", "avx512", "float", "train.bin has digest d2 there, d1 at the others"},
                                         Odd{"d1+weights:b", "avx512", "exact",
                                             "its initial weights differ:  has digest b there, none at"},
                                         Odd{"d1", "avx2", "exact", "its numerics are \"avx2\", the job's are \"avx512\""},
                                         Odd{"d1", "avx2", "float", ""}, Odd{"d1", "avx512", "exact", ""}));

// A worker: (name, digest, numerics).
void prepared_with(Story& story, const std::string& worker, const std::string& digest, const std::string& numerics = "avx512") {
  story.assigned(worker, numerics);
  story.says(worker, Phase::kPreparing);
  WorkerStatus status = story.status(worker, Phase::kPrepared, 0, -1);
  status.data_digest = digest;
  story.happens(WorkerReported{worker, status});
}

TEST(References, OneWrongWorkerThatComesFirstDoesNotKeepTheOthersOut) {
  Story story(2);
  prepared_with(story, "w1", "wrong");
  prepared_with(story, "w2", "d1", "avx2");
  prepared_with(story, "w3", "d1");
  EXPECT_EQ(story.told_of("REFUSE"), Lines{}) << "no two fit together, so it is not known yet who is wrong";
  story.passes(1000);
  EXPECT_EQ(story.told(), Lines{}) << "it was said";
  EXPECT_EQ(story.job.reason,
            "waiting for 1 more worker: 2 needed, 1 ready that fits together; w2: its training data differs: train.bin has "
            "digest d1 there, wrong at the others; give it the same file; w3: its training data differs: train.bin has digest "
            "d1 there, wrong at the others; give it the same file");
  prepared_with(story, "w4", "d1");
  const Lines lines = story.told();
  EXPECT_THAT(lines, testing::Contains("REFUSE w1"));
  EXPECT_THAT(lines, testing::Contains("REFUSE w2"));
  EXPECT_EQ(story.job.current.members.size(), 2u);
  EXPECT_EQ(story.job.data_digest, "d1");
  EXPECT_EQ(story.job.numerics, "avx512");
  prepared_with(story, "w5", "wrong");
  EXPECT_EQ(story.told_of("REFUSE"), Lines{"REFUSE w5"}) << "from then on they are fixed";
}

TEST(References, WhatNobodyHasAnyMoreIsNoReference) {
  Story story(2);
  prepared_with(story, "w1", "old");
  prepared_with(story, "w2", "new");
  story.happens(WorkerGone{"w1", "killed"});
  prepared_with(story, "w3", "new");
  EXPECT_EQ(story.told_of("FORM"), Lines{"FORM 1 w2 and w3 initial 0"});
  EXPECT_EQ(story.job.data_digest, "new");
}

// The reason for which w2 is refused by a job whose other members have `digest`.
std::string refusal(const std::string& path, const std::string& digest, const std::string& other) {
  Story story;
  story.job.spec.train_data_path = path;
  story.job.spec.valid_data_path = "val.bin";
  prepared_with(story, "w1", digest);
  prepared_with(story, "w2", other);
  const Lines refused = story.told_of("worker_refused");
  return refused.size() == 1 ? refused[0] : "";
}

TEST(References, OfAMixtureNameTheSourceThatDiffers) {
  const std::string mixture = "/data/a.bin:7,data:code:3";
  EXPECT_EQ(refusal(mixture, "10-aa*7,20-bb*3", "10-aa*7,20-bc*3"),
            "worker_refused: w2 cannot take part: its training data differs: data:code/train.bin has digest 20-bc there, 20-bb "
            "at the others; give it the same file");
  EXPECT_EQ(refusal(mixture, "10-aa*7,20-bb*3+5-v", "11-aa*7,20-bc*3+5-w"),
            "worker_refused: w2 cannot take part: its training data differs: /data/a.bin has digest 11-aa there, 10-aa at the "
            "others; give it the same file");
  EXPECT_EQ(refusal(mixture, "10-aa*7,20-bb*3+5-v", "10-aa*7,20-bb*3+5-v"), "");
}

// Data of 1001 tokens, so 100 sequences of 10; w1 is there and has them.
Story with_epochs(int64_t epochs, int64_t schedule_start, int64_t first_step, int64_t warmup_steps = 0,
                  int64_t decay_steps = 0) {
  Story story;
  story.job.spec.total_steps = 0;
  story.job.spec.epochs = epochs;
  story.job.spec.block_size = 10;
  story.job.spec.batch_size = 1;
  story.job.spec.global_batch_size = 10;
  story.job.spec.schedule_start = schedule_start;
  story.job.spec.warmup_steps = warmup_steps;
  story.job.spec.decay_steps = decay_steps;
  if (first_step > 0) story.happens(SourceGiven{{StateSource::Kind::kCheckpoint, first_step, "j0", "", ""}});
  story.assigned("w1");
  WorkerStatus status = story.status("w1", Phase::kPrepared, 0, -1);
  status.data_tokens = 1001;
  story.happens(WorkerReported{"w1", status});
  return story;
}
std::string failure(int64_t epochs, int64_t schedule_start, int64_t first_step) {
  const Story story = with_epochs(epochs, schedule_start, first_step);
  return story.job.state == JobState::kFailed ? story.job.reason : "";
}

TEST(References, SayHowLongEpochsAreAndFailAJobThatCouldNotGoOnForSoLong) {
  EXPECT_EQ(failure(2, 19, 20), "");
  EXPECT_EQ(failure(2, 20, 20), "epochs 2 is 20 steps of this data, and schedule_start 20 is not below that: raise epochs");
  EXPECT_EQ(failure(2, 0, 21), "epochs 2 is 20 steps of this data, and the job goes on from step 21: raise epochs");
}

TEST(References, SayWhatBecomesOfAScheduleThatIsLongerThanTheEpochs) {
  EXPECT_EQ(with_epochs(2, 0, 0, 20).told_of("schedule"), Lines{});
  EXPECT_EQ(with_epochs(2, 0, 0, 5, 15).told_of("schedule"), Lines{});
  EXPECT_EQ(with_epochs(2, 0, 0, -1, 18).told_of("schedule"), Lines{}) << "a warm-up of its own, of 2 steps";
  const std::string length = "schedule_cut: epochs 2 is 20 steps of this data: ";
  EXPECT_EQ(with_epochs(2, 5, 10, 20).told_of("schedule"),
            Lines{length + "the warm-up of 20 steps is cut to 15, and the rate never falls"});
  EXPECT_EQ(with_epochs(2, 5, 10, 5, 15).told_of("schedule"),
            Lines{length + "the rate falls over the 10 steps that are left after the warm-up, and not over 15 (decay_steps)"});
  EXPECT_EQ(with_epochs(2, 0, 0, -1, 19).told_of("schedule"),
            Lines{length + "the rate falls over the 18 steps that are left after the warm-up, and not over 19 (decay_steps)"});
}

TEST(References, SayThatNothingWasLeftToTrain) {
  Story story = with_epochs(2, 0, 20);
  story.all_active(20);
  story.progress(20, "", true);
  EXPECT_EQ(story.job.reason, "nothing was left to train: all 20 steps were done where it began");
}

TEST(References, NameTheValidationFileThatDiffers) {
  EXPECT_EQ(
      refusal("train.bin", "10-aa+5-v", "10-aa+5-w"),
      "worker_refused: w2 cannot take part: its validation data differs: val.bin has digest 5-w there, 5-v at the others; "
      "give it the same file");
}

TEST(References, OfAJobThatHasAnotherNumberOfSourcesAreShownWhole) {
  EXPECT_EQ(
      refusal("a:1,b:1", "10-aa", "10-aa*1,20-bb*1"),
      "worker_refused: w2 cannot take part: its training data differs: a:1,b:1 has digest 10-aa*1,20-bb*1 there, 10-aa at "
      "the others; give it the same file");
}

}  // namespace
}  // namespace holdfast::rendezvous

// The rules between the fields of a learning rate's schedule.
#include "rendezvous/protocol/rules/schedule.h"

#include <gmock/gmock.h>

namespace holdfast::rendezvous {
namespace {

using Json = nlohmann::json;
using testing::HasSubstr;

std::string schedule_complaint(const Json& changes, const std::string& field) {
  Json spec = {{"train_data_path", "x.bin"}, {"total_steps", 1000}};
  spec.update(changes);
  const auto parsed = parse_job_spec(spec);
  if (parsed) return "";
  for (const FieldError& error : parsed.error()) {
    if (error.field == field) return error.message;
  }
  return "another field: " + parsed.error().front().field + " " + parsed.error().front().message;
}

TEST(Schedule, IsOneOfFour) {
  for (const char* name : {"cosine", "linear", "constant", "wsd"})
    EXPECT_EQ(schedule_complaint({{"lr_schedule", name}}, ""), "") << name;
  EXPECT_THAT(schedule_complaint({{"lr_schedule", "exponential"}}, "lr_schedule"),
              HasSubstr("is not one of cosine, linear, constant, wsd"));
}

TEST(Schedule, FallsWithinTheStepsAfterTheWarmUp) {
  EXPECT_EQ(schedule_complaint({{"lr_schedule", "wsd"}, {"decay_steps", 900}}, "decay_steps"), "");
  EXPECT_THAT(schedule_complaint({{"lr_schedule", "wsd"}, {"decay_steps", 901}}, "decay_steps"),
              HasSubstr("901 is above the 900 steps that are left after the warm-up (total_steps 1000)"));
  EXPECT_THAT(schedule_complaint({{"lr_schedule", "constant"}, {"decay_steps", 5}}, "decay_steps"),
              HasSubstr("never falls: leave it out"));
}

TEST(Schedule, BeginsAnewWhereAJobGoesOn) {
  EXPECT_EQ(schedule_complaint({{"schedule_start", 500}, {"resume_from", "job:j1"}}, "schedule_start"), "");
  EXPECT_THAT(schedule_complaint({{"schedule_start", 500}}, "schedule_start"),
              HasSubstr("give resume_from, too, or leave it out"));
  EXPECT_THAT(schedule_complaint({{"schedule_start", 1000}, {"resume_from", "job:j1"}}, "schedule_start"),
              HasSubstr("1000 is not below total_steps 1000"));
  EXPECT_THAT(schedule_complaint({{"schedule_start", 950}, {"warmup_steps", 60}, {"resume_from", "job:j1"}}, "warmup_steps"),
              HasSubstr("60 is above the 50 steps from schedule_start to total_steps"));
}

TEST(Schedule, HasAWarmUpThatFitsWhereNoneIsGiven) {
  const auto spec =
      parse_job_spec({{"train_data_path", "x.bin"}, {"total_steps", 1000}, {"schedule_start", 960}, {"resume_from", "job:j1"}});
  ASSERT_TRUE(spec);
  EXPECT_EQ(spec->warmup_steps, 4);
}

TEST(Schedule, OfEpochsHasAWarmUpThatFitsOnceTheLengthOfTheDataIsKnown) {
  const auto spec = parse_job_spec({{"train_data_path", "x.bin"},
                                    {"epochs", 3},
                                    {"block_size", 10},
                                    {"warmup_steps", 7},
                                    {"schedule_start", 71},
                                    {"resume_from", "job:j1"}});
  ASSERT_TRUE(spec);
  EXPECT_EQ(spec->with_steps_over(1001).total_steps, 75);
  EXPECT_EQ(spec->with_steps_over(1001).warmup_steps, 4) << "what is left of the schedule";
}

}  // namespace
}  // namespace holdfast::rendezvous

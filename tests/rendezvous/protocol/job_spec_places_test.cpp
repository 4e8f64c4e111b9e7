// The places of checkpoints in a job spec: which are taken, and that none has a key in it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "rendezvous/protocol/job_spec.h"

namespace holdfast::rendezvous {
namespace {

using ::testing::HasSubstr;
using Json = nlohmann::json;

Json with(const Json& more) {
  Json json = {{"train_data_path", "train.bin"}};
  json.update(more);
  return json;
}

// The message about `field`; "" when there is none.
std::string said_of(const Json& json, const std::string& field) {
  const auto spec = parse_job_spec(json);
  if (spec) return "";
  for (const FieldError& error : spec.error()) {
    if (error.field == field) return error.message;
  }
  return "";
}

TEST(PlacesInJobSpec, ACopyIsInAnotherPlace) {
  const auto said = [](const char* copy) {
    return said_of(with({{"checkpoint_store", "/shared"}, {"checkpoint_copy", copy}}), "checkpoint_copy");
  };
  for (const char* good : {"", "/other", "file:///other", "s3://bucket/a"}) EXPECT_EQ(said(good), "") << good;
  EXPECT_THAT(said("/shared"), HasSubstr("is checkpoint_store, too"));
  EXPECT_THAT(said("other"), HasSubstr("absolute path"));
  EXPECT_THAT(said("s3://A:hidden@bucket"), HasSubstr("never part of a place"));
  EXPECT_EQ(parse_job_spec(with({{"checkpoint_copy", "/b"}, {"copy_mib_per_s", 0}}))->copy_mib_per_s, 0);
  EXPECT_THAT(said_of(with({{"copy_mib_per_s", -1}}), "copy_mib_per_s"), HasSubstr("out of range"));
}

// A spec is kept, shown and given to workers: no key may be in it.
TEST(PlacesInJobSpec, APlaceInS3HasNoKeysInIt) {
  for (const char* field : {"checkpoint_store", "checkpoint_copy", "resume_from", "init_from"}) {
    for (const char* place : {"s3://AKIA:hidden@bucket/a", "s3://bucket?endpoint=https://me:hidden@host",
                              "s3://bucket/a?X-Amz-Credential=hidden", "s3://bucket//a"}) {
      const std::string said = said_of(with({{field, place}}), field);
      EXPECT_NE(said, "") << field << " " << place;
      EXPECT_EQ(said.find("hidden"), std::string::npos) << said;
    }
  }
}

}  // namespace
}  // namespace holdfast::rendezvous

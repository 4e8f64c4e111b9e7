// Specs of jobs that serve: fields of their own, rules of their own, and nothing of a training job's.
#include <gmock/gmock.h>

#include <algorithm>

#include "rendezvous/protocol/job_spec.h"

namespace holdfast::rendezvous {
namespace {

using Json = nlohmann::json;
using testing::HasSubstr;

std::string serving_complaint(const Json& json, const std::string& field) {
  const auto spec = parse_job_spec(json);
  if (spec) return "";
  const auto found = std::ranges::find(spec.error(), field, &FieldError::field);
  return found == spec.error().end() ? "" : found->message;
}

TEST(ServingSpec, HasItsOwnFieldsAndThoseOfEveryJobAndIsReadAgain) {
  const auto spec = parse_job_spec({{"kind", "serve"}, {"init_from", "job:j1@60"}, {"nodes", 3}, {"precision", "int8"}});
  ASSERT_TRUE(spec) << spec.error()[0].message;
  EXPECT_TRUE(spec->serves());
  EXPECT_EQ(spec->max_nodes, 3);
  EXPECT_EQ(spec->total_steps, 0) << "it has no end of its own";
  const Json written = to_json(*spec);
  for (const char* field : {"learning_rate", "train_data_path", "total_steps", "dtype", "checkpoint_every"})
    EXPECT_FALSE(written.contains(field)) << field;
  for (const char* field :
       {"kind", "precision", "follow", "tokenizer", "stages", "n_embd", "tied_head", "priority", "requires"})
    EXPECT_TRUE(written.contains(field)) << field;
  EXPECT_EQ(job_spec_from_json(written), *spec);
  EXPECT_EQ(to_json(job_spec_from_json(to_json_for_workers(*spec)))["precision"], "int8");
}

TEST(ServingSpec, OfADividedModelHasWorkersForOneReplicaAtLeast) {
  const auto spec = parse_job_spec({{"kind", "serve"}, {"init_from", "job:j1@60"}, {"stages", 3}});
  ASSERT_TRUE(spec) << spec.error()[0].message;
  EXPECT_EQ(spec->nodes, 3);
  EXPECT_EQ(spec->min_nodes, 3);
  EXPECT_EQ(spec->max_nodes, 3);
}

TEST(ServingSpec, OfATrainingJobNamesNoneOfItsFieldsSoThatOlderWorkersReadIt) {
  const Json written = to_json(*parse_job_spec({{"train_data_path", "train.bin"}}));
  for (const char* field : {"kind", "precision", "follow", "tokenizer", "stages"})
    EXPECT_FALSE(written.contains(field)) << field;
}

TEST(ServingSpec, RefusesWishesThatItCannotFulfil) {
  const Json good = {{"kind", "serve"}, {"init_from", "job:j1"}};
  const auto with = [&](const char* name, const Json& value) {
    Json json = good;
    json[name] = value;
    return serving_complaint(json, name);
  };
  EXPECT_EQ(serving_complaint(good, "init_from"), "");
  EXPECT_THAT(serving_complaint({{"kind", "serve"}}, "init_from"), HasSubstr("is required: the model to serve"));
  EXPECT_THAT(with("learning_rate", 0.1), HasSubstr("has no meaning for a job that serves"));
  EXPECT_THAT(with("train_data_path", "x.bin"), HasSubstr("leave it out"));
  EXPECT_THAT(with("precision", "int2"), HasSubstr("float32, bfloat16, float16, int8, int4"));
  EXPECT_THAT(with("min_nodes", 2), HasSubstr("is above nodes 1"));
  const Json elsewhere = {{"kind", "serve"}, {"init_from", "/models/gpt2"}, {"follow", "on"}};
  EXPECT_THAT(serving_complaint(elsewhere, "follow"), HasSubstr("on goes with the checkpoints of a job"));
  EXPECT_THAT(serving_complaint(elsewhere, "tokenizer"), HasSubstr("is required where init_from is no job"));
  EXPECT_THAT(serving_complaint({{"train_data_path", "x.bin"}, {"precision", "int8"}}, "precision"),
              HasSubstr("goes with kind serve"));
  EXPECT_THAT(with("stages", 7), HasSubstr("7 is above n_layer 6"));
  const Json too_few = {{"kind", "serve"}, {"init_from", "job:j1"}, {"stages", 3}, {"nodes", 6}, {"min_nodes", 2}};
  EXPECT_THAT(serving_complaint(too_few, "min_nodes"), HasSubstr("2 is below stages 3: a replica is that many workers"));
  const Json no_whole = {{"kind", "serve"}, {"init_from", "job:j1"}, {"stages", 3}, {"nodes", 2}};
  EXPECT_THAT(serving_complaint(no_whole, "nodes"), HasSubstr("2 is below stages 3: a replica is that many workers"));
  EXPECT_EQ(serving_complaint(no_whole, "min_nodes"), "") << "nobody gave it";
  EXPECT_THAT(serving_complaint({{"kind", "teach"}}, "kind"), HasSubstr("is not one of train, serve"));
}

}  // namespace
}  // namespace holdfast::rendezvous

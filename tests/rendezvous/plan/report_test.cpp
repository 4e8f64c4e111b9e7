// A job spec as the planner's inputs, what may be recommended for it, and the report's words.
#include "rendezvous/plan/report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "rendezvous/plan/settings.h"

namespace holdfast::rendezvous {
namespace {

using Json = nlohmann::json;
using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

// The report of a job on a link of so many megabytes a second.
Json report_of(Json given, double link_mb_s, const std::vector<std::string>& keep = {}, double microbatch_s = 0.03) {
  given["train_data_path"] = "x";
  const JobSpec spec = *parse_job_spec(given);
  PlanInputs inputs = inputs_of(spec, given);
  inputs.microbatch_s = microbatch_s;
  inputs.link_bytes_per_s = link_mb_s * 1e6;
  const Allowed allowed = taken_by_rules(spec, given, inputs);
  return json_of(plan_report(inputs, {"given", "given", "", true}, allowed, leaving(allowed, keep, inputs)));
}

Json two_nodes(const Json& more = Json::object()) {
  Json given = {{"nodes", 2}, {"batch_size", 16}, {"gradient_accumulation_steps", 8}};
  given.update(more);
  return given;
}

TEST(PlanOfASpec, HasItsFields) {
  const Json given = two_nodes({{"train_data_path", "x"}, {"dtype", "float32"}, {"sync_every", 4}, {"recompute", "block"}});
  const PlanInputs inputs = inputs_of(*parse_job_spec(given), given);
  EXPECT_EQ(inputs.accumulation, 8);
  EXPECT_EQ(inputs.sync_every, 4);
  EXPECT_EQ(inputs.activation_bytes, 4);
  EXPECT_EQ(inputs.recompute, model::Recompute::kBlock);
  EXPECT_EQ(inputs.wire.name, "int32");
}

TEST(PlanOfASpec, TakesAccumulationFromAGlobalBatch) {
  const Json report = report_of({{"nodes", 2}, {"batch_size", 16}, {"global_batch_size", 256}}, 118);
  EXPECT_EQ(report["settings"]["gradient_accumulation_steps"], 8);
  const Json changes = report["same_training"]["changes"];
  EXPECT_FALSE(changes.contains("gradient_accumulation_steps")) << changes;
  EXPECT_FALSE(changes.contains("global_batch_size")) << "the same training: " << changes;
  EXPECT_THAT(report["recommendations"][0]["flags"].get<std::string>(), HasSubstr("--global_batch_size"));
}

TEST(PlanOfASpec, OfABatchThatDoesNotDivideOverTheNodesRecommendsNoOtherBatch) {
  const Json report = report_of({{"nodes", 4}, {"batch_size", 2}, {"global_batch_size", 12}}, 118);
  EXPECT_EQ(report["settings"]["gradient_accumulation_steps"], 2) << "of the nodes with the most";
  EXPECT_FALSE(report["same_training"]["changes"].contains("batch_size"));
}

TEST(PlanReport, ChangesMakeTheJobThatIsRecommended) {
  Json given = two_nodes();
  const Json report = report_of(given, 118);
  const Json same = report["same_training"];
  EXPECT_FALSE(same["changes"].empty());
  given.update(same["changes"]);
  EXPECT_EQ(report_of(given, 118)["settings"], same["settings"]);
}

TEST(PlanReport, LeavesWhatIsToBeKeptAndSaysWhatThatCosts) {
  const Json report = report_of(two_nodes(), 118, {"batch_size", "gradient_accumulation_steps", "wire_dtype"});
  for (const char* field : {"batch_size", "gradient_accumulation_steps", "wire_dtype"})
    EXPECT_FALSE(report["same_training"]["changes"].contains(field)) << field;
  EXPECT_THAT(report["notes"], Contains(HasSubstr("what was given by name stays; left free, --")));
  EXPECT_THAT(report["recommendations"][0]["flags"].get<std::string>(), HasSubstr("--gradient_accumulation_steps"))
      << "another training is only spoken of";
}

TEST(PlanReport, ComparesOneNodeTheSettingsAskedForAndThoseThatTrainTheSame) {
  const Json rows = report_of(two_nodes(), 118)["comparison"];
  ASSERT_EQ(rows.size(), 3U);
  EXPECT_EQ(rows[0]["name"], "one node alone");
  EXPECT_EQ(rows[0]["settings"], "16 x 8");
  EXPECT_DOUBLE_EQ(rows[0]["of_one_node"], 1);
  EXPECT_NEAR(rows[0]["tokens_per_s"].get<double>(), 16 * 512 / 0.03, 1);
  EXPECT_EQ(rows[1]["settings"], "16 x 8, int32, overlap on");
  EXPECT_GT(rows[2]["of_one_node"], rows[1]["of_one_node"]);
}

TEST(PlanReport, SaysFirstWhenSeveralNodesAreSlowerThanOneAndWhatWouldHelp) {
  const std::string slow = report_of(two_nodes(), 20)["verdict"];
  EXPECT_THAT(slow, StartsWith("2 nodes are slower than one: they do 0."));
  EXPECT_THAT(slow, HasSubstr("More takes another training: --"));
  EXPECT_THAT(report_of(two_nodes(), 1180)["verdict"].get<std::string>(), StartsWith("2 nodes do 1."));
  EXPECT_THAT(report_of({{"nodes", 1}}, 118)["verdict"].get<std::string>(), StartsWith("One node"));
}

TEST(PlanReport, NotesWhatChangesWithTheSettings) {
  const Json notes = report_of(two_nodes(), 118)["notes"];
  EXPECT_THAT(notes, Contains(HasSubstr("but other bits")));
  EXPECT_THAT(report_of(two_nodes({{"reduction", "float"}}), 118)["notes"],
              Contains(HasSubstr("the wire type stays as it is")));
  EXPECT_THAT(report_of({{"nodes", 1}}, 118)["notes"], IsEmpty());
}

TEST(PlanReport, SaysThatWithLargerMicrobatchesFewerWorkersCanTakePart) {
  const double half_a_second = 0.5;  // the larger the microbatch, the more of a sync is hidden beside it
  const Json fewer = report_of(two_nodes(), 118, {}, half_a_second);
  EXPECT_GT(fewer["same_training"]["settings"]["batch_size"], 16);
  EXPECT_THAT(fewer["notes"], Contains(HasSubstr("no more workers can take part")));
  const Json many = report_of(two_nodes({{"max_nodes", 16}}), 118, {}, half_a_second);
  EXPECT_EQ(many["same_training"]["settings"]["batch_size"], 16) << "16 workers may join, and each needs a microbatch";
}

}  // namespace
}  // namespace holdfast::rendezvous

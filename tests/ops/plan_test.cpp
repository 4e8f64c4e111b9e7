// The planner's figures against arithmetic by hand, and the command around them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "ops/cli/plan_model.h"
#include "ops/cli/plan_report.h"
#include "ops/cli/plan_speed.h"
#include "ops/cli/quantities.h"
#include "rendezvous/protocol/job_spec.h"
#include "tests/ops/cli_runner.h"
#include "tests/ops/fake_service.h"

namespace holdfast::ops {
namespace {

using ::testing::HasSubstr;

constexpr model::Gpt2Config kTiny = {.n_layer = 6, .n_embd = 384, .n_head = 6, .vocab_size = 50257, .block_size = 512};
constexpr double kTinyParameters = 30142848;

// Two nodes, float32, every step, 119 MB/s, no latency, one second a microbatch, nothing hidden.
PlanInputs plain_inputs() {
  PlanInputs inputs;
  inputs.model = kTiny;
  inputs.wire = *find_wire_type("float32");
  inputs.overlap = false;
  inputs.microbatch_s = 1;
  inputs.link_bytes_per_s = 119e6;
  return inputs;
}

TEST(Plan, TinyOverTwoNodesInFloat32Is120MegabytesEachWayAndASecondAt119) {
  const PlanFigures figures = figures_of(plain_inputs());
  EXPECT_EQ(figures.parameters, 30142848);
  EXPECT_DOUBLE_EQ(figures.bytes_each_way, 120571392);
  EXPECT_DOUBLE_EQ(figures.row_bytes_each_way, 2048 * (4 * 384 + 4));
  EXPECT_NEAR(figures.link_s, 1.0132, 1e-4);
  EXPECT_NEAR(figures.row_s, 0.0265, 1e-4);
  EXPECT_NEAR(figures.step_s, 2.0397, 1e-4);
  EXPECT_NEAR(figures.efficiency, 0.4903, 1e-4);
  EXPECT_DOUBLE_EQ(figures.communication_share + figures.efficiency, 1);
  EXPECT_EQ(figures.tokens_per_step, 2 * 1 * 4 * 512);
  EXPECT_NEAR(figures.tokens_per_s, 4096 / 2.0397, 0.1);
}

TEST(Plan, ARingSendsTwiceTheShareOfTheOthersEachWay) {
  PlanInputs inputs = plain_inputs();
  inputs.nodes = 4;
  EXPECT_DOUBLE_EQ(figures_of(inputs).bytes_each_way, 2 * 3.0 / 4 * 4 * kTinyParameters);
  EXPECT_DOUBLE_EQ(figures_of(inputs).row_bytes_each_way, 3 * 2048 * (4 * 384 + 4)) << "gathered: from each of the others";
  inputs.nodes = 1;
  EXPECT_EQ(figures_of(inputs).bytes_each_way, 0);
  EXPECT_EQ(figures_of(inputs).row_bytes_each_way, 0);
  EXPECT_EQ(figures_of(inputs).efficiency, 1);
}

TEST(Plan, BytesOfAWireTypeAreItsOwn) {
  PlanInputs inputs = plain_inputs();
  const std::pair<const char*, double> expected[] = {{"int32", 4 * kTinyParameters},
                                                     {"int16", 2 * kTinyParameters},
                                                     {"float32", 4 * kTinyParameters},
                                                     {"bfloat16", 2 * kTinyParameters},
                                                     {"float16", 2 * kTinyParameters}};
  for (const auto& [name, bytes] : expected) {
    inputs.wire = *find_wire_type(name);
    EXPECT_DOUBLE_EQ(figures_of(inputs).bytes_each_way, bytes) << name;
  }
  EXPECT_EQ(find_wire_type("int4"), nullptr);
}

TEST(Plan, RowsOfTheEmbeddingAreAsManyAsTokensOrAsTheVocabularyHas) {
  PlanInputs inputs = plain_inputs();
  inputs.wire = *find_wire_type("int16");
  inputs.batch_size = 16;
  EXPECT_DOUBLE_EQ(figures_of(inputs).row_bytes_each_way, 8192 * (2 * 384 + 4));
  inputs.batch_size = 1024;
  EXPECT_DOUBLE_EQ(figures_of(inputs).row_bytes_each_way, 50257 * (2 * 384 + 4));
  inputs.wire = *find_wire_type("int8");
  EXPECT_DOUBLE_EQ(figures_of(inputs).row_bytes_each_way, 50257 * (4 * 384 + 4)) << "as float32";
  inputs.sync_every = 8;
  EXPECT_EQ(figures_of(inputs).row_bytes_each_way, 0);
}

TEST(Plan, Int8SendsItsFirstHalfAsAnAllToAllRoundTheRing) {
  PlanInputs inputs = plain_inputs();
  inputs.wire = *find_wire_type("int8");
  // 30,142,848 and a float32 for each 512 of them: 30,378,339 bytes.
  EXPECT_NEAR(figures_of(inputs).bytes_each_way, 30378339, 1);
  inputs.nodes = 4;
  EXPECT_NEAR(figures_of(inputs).bytes_each_way, (1.5 + 0.75) * 30378339, 3);
}

TEST(Plan, AccumulationAndTheOptimizerAreComputing) {
  PlanInputs inputs = plain_inputs();
  inputs.accumulation = 8;
  inputs.update_s = 0.5;
  const PlanFigures figures = figures_of(inputs);
  EXPECT_DOUBLE_EQ(figures.compute_s, 8.5);
  EXPECT_NEAR(figures.efficiency, 8.5 / 9.5397, 1e-4);
}

TEST(Plan, SyncingEveryEighthStepDividesTheCommunication) {
  PlanInputs inputs = plain_inputs();
  inputs.sync_every = 8;
  inputs.overlap = true;  // hides nothing then
  EXPECT_NEAR(figures_of(inputs).communication_s, 1.0132 / 8, 1e-4);
  EXPECT_EQ(figures_of(inputs).hidden_s, 0);
}

TEST(Plan, OverlapHidesTheEmbeddingAndFiveOfSixLayersAsFarAsThePassIsLongEnough) {
  PlanInputs inputs = plain_inputs();
  inputs.overlap = true;
  // A layer's 1,774,464 parameters take 59.6 ms on the link. The head has 19.3 of 31.1 million multiply-adds, so a layer's
  // backward pass takes 2/3 x 0.379 / 6 of a second: 42.2 ms. The embedding's 19.3 million parameters take 648.7 ms.
  EXPECT_NEAR(figures_of(inputs).hidden_s, 6 * 0.04215, 1e-4) << "the link is never idle, and the pass is over first";
  inputs.microbatch_s = 4;  // now the embedding is through, and each layer before the next is computed
  const PlanFigures slow = figures_of(inputs);
  EXPECT_NEAR(slow.hidden_s, 0.6487 + 5 * 0.05965, 1e-4);
  EXPECT_NEAR(slow.exposed_s, 1.0132 + 0.0265 - 0.6487 - 5 * 0.05965, 2e-4);
}

// The link as a queue: a part is sent when it is final and the one before it is through.
TEST(Plan, WhatOverlapHidesIsWhatAQueueWouldHide) {
  for (const double microbatch_s : {0.01, 0.5, 1.0, 2.0, 3.0, 5.0, 20.0}) {
    for (const int64_t vocabulary : {int64_t{64}, int64_t{5000}, int64_t{50257}}) {
      PlanInputs inputs = plain_inputs();
      inputs.overlap = true;
      inputs.microbatch_s = microbatch_s;
      inputs.model.vocab_size = vocabulary;
      const double V = static_cast<double>(vocabulary), C = 384, T = 512;
      const double head = V * C / (V * C + 6 * (12 * C * C + T * C));
      const double layer_pass = 2.0 / 3 * microbatch_s * (1 - head) / 6;
      const double embedding = V * C * 4 / 119e6, layer = 1774464 * 4 / 119e6;
      double through = embedding;
      for (int k = 1; k <= 6; ++k) through = std::max(through, k * layer_pass) + layer;
      const double hidden = embedding + 6 * layer - (through - 6 * layer_pass);
      EXPECT_NEAR(figures_of(inputs).hidden_s, hidden, 1e-9) << microbatch_s << " s, " << vocabulary;
    }
  }
}

TEST(Plan, EveryCollectiveWaitsForItsRoundTrips) {
  PlanInputs inputs = plain_inputs();
  inputs.nodes = 3;
  inputs.round_trip_s = 0.001;
  EXPECT_NEAR(figures_of(inputs).latency_s, 4 * 2 * 0.001, 1e-12);
  inputs.overlap = true;  // 31 buckets of 4 MB instead of one reduction
  EXPECT_NEAR(figures_of(inputs).latency_s, (3 + 31) * 2 * 0.001, 1e-12);
}

std::vector<WireType> exact_wires() {
  return {*find_wire_type("int32"), *find_wire_type("int16")};
}

TEST(Recommendation, IsTheSettingsAskedForWhenTheyDo) {
  PlanInputs inputs = plain_inputs();
  inputs.accumulation = 10;
  const Recommendation found = recommend(inputs, {inputs.wire}, 0.90);
  EXPECT_TRUE(found.reached);
  EXPECT_EQ(found.inputs.accumulation, 10);
  EXPECT_EQ(found.inputs.wire.name, "float32");
}

TEST(Recommendation, TakesANarrowerWireAndTwiceTheAccumulationBeforeRarerSyncs) {
  PlanInputs inputs = plain_inputs();
  inputs.wire = *find_wire_type("int32");
  inputs.microbatch_s = 1.3;  // x4: 83.3 % in int32, 90.9 % in int16
  const Recommendation found = recommend(inputs, exact_wires(), 0.90);
  EXPECT_TRUE(found.reached);
  EXPECT_EQ(found.inputs.wire.name, "int16");
  EXPECT_EQ(found.inputs.accumulation, 4);
  EXPECT_EQ(found.inputs.sync_every, 1);
  EXPECT_NEAR(found.figures.efficiency, 5.2 / 5.7199, 1e-3);
}

TEST(Recommendation, SyncsMoreRarelyForAFastDevice) {
  PlanInputs inputs = plain_inputs();
  inputs.wire = *find_wire_type("int32");
  inputs.microbatch_s = 0.03;  // x64 in int16 is 79 %; every 8th step x32 in int16 is 93.8 %
  const Recommendation found = recommend(inputs, exact_wires(), 0.90);
  EXPECT_TRUE(found.reached);
  EXPECT_EQ(found.inputs.sync_every, 8);
  EXPECT_EQ(found.inputs.accumulation, 32);
  EXPECT_EQ(found.inputs.wire.name, "int16");
}

TEST(Recommendation, SaysWhenTheTargetIsOutOfReach) {
  PlanInputs inputs = plain_inputs();
  inputs.microbatch_s = 1e-5;
  const Recommendation found = recommend(inputs, {inputs.wire}, 0.97);
  EXPECT_FALSE(found.reached);
  EXPECT_EQ(found.inputs.sync_every, 64);
  EXPECT_EQ(found.inputs.accumulation, 64);
}

TEST(Quantities, HaveTheDigitsThatAPlannerNeeds) {
  EXPECT_EQ(seconds_text(1.0132), "1.01 s");
  EXPECT_EQ(seconds_text(0.0342), "34.2 ms");
  EXPECT_EQ(seconds_text(0.00018), "180 us");
  EXPECT_EQ(seconds_text(0), "0 s");
  EXPECT_EQ(link_rate_text(119e6), "119 MB/s (0.952 Gbit/s)");
  EXPECT_EQ(percent_text(0.9), "90 %");
  EXPECT_EQ(percent_text(0.012), "1.2 %");
  EXPECT_EQ(percent_text(0.996), "99.6 %");
}

Json planned(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "plan");
  arguments.emplace_back("--json");
  const Said said = holdfast(arguments);
  EXPECT_EQ(said.exit_code, 0) << said.err;
  return Json::parse(said.out, nullptr, false);
}

TEST(PlanCommand, GivesTheFiguresOfItsFlags) {
  const Json plan = planned({"--model",
                             "tiny",
                             "--nodes",
                             "2",
                             "--batch_size",
                             "16",
                             "--gradient_accumulation_steps",
                             "8",
                             "--reduction",
                             "float",
                             "--wire-dtype",
                             "float16",
                             "--overlap",
                             "off",
                             "--step_s",
                             "1",
                             "--link_mb_s",
                             "100",
                             "--rtt_ms",
                             "0"});
  EXPECT_EQ(plan["parameters"], 30142848);
  EXPECT_DOUBLE_EQ(plan["figures"]["bytes_each_way"], 60285696);
  EXPECT_DOUBLE_EQ(plan["figures"]["row_bytes_each_way"], 8192 * (4 * 384 + 4));
  EXPECT_NEAR(plan["figures"]["link_s"].get<double>(), 0.603, 1e-3);
  EXPECT_NEAR(plan["figures"]["row_s"].get<double>(), 0.126, 1e-3);
  EXPECT_NEAR(plan["figures"]["communication_share"].get<double>(), 0.729 / 8.729, 1e-4);
  EXPECT_EQ(plan["settings"]["wire_dtype"], "float16");
  EXPECT_EQ(plan["table"].size(), 6U * 5) << "every wire type at every accumulation";
  EXPECT_EQ(plan["recommendations"].size(), 2U);
}

TEST(PlanCommand, TakesTheRateOfADeviceAndTheNameOfALink) {
  const Json plan = planned({"--batch_size", "16", "--device_tokens_per_s", "81920", "--link_gbit_s", "10"});
  EXPECT_DOUBLE_EQ(plan["microbatch_s"], 0.1);
  EXPECT_DOUBLE_EQ(plan["link_bytes_per_s"], 0.97 * 1.25e9);
  EXPECT_EQ(plan["settings"]["wire_dtype"], "int32") << "exact is the default";
  EXPECT_THAT(plan["link_source"].get<std::string>(), HasSubstr("0.97")) << "an assumption is said";
}

TEST(PlanCommand, TellsPeopleTheSame) {
  const Said said = holdfast({"plan", "--nodes", "2", "--microbatch_s", "1", "--link_mb_s", "119", "--overlap", "off",
                              "--gradient_accumulation_steps", "4", "--rtt_ms", "0"});
  EXPECT_EQ(said.exit_code, 0) << said.err;
  for (const char* part :
       {"30,142,848 parameters", "120.6 MB each way, 1.01 s on the link", "3.2 MB and 26.5 ms for rows of the embedding",
        "119 MB/s", "int16", "Assumed: ", "for 90 %", "for 97 %", "--wire_dtype int16"}) {
    EXPECT_THAT(said.out, HasSubstr(part));
  }
}

TEST(PlanCommand, MeasuresAMicrobatchHere) {
  const Json plan = planned({"--n_layer", "1", "--n_embd", "16", "--n_head", "2", "--vocab_size", "64", "--block_size", "8",
                             "--dtype", "float32", "--measure", "--threads", "1"});
  EXPECT_GT(plan["microbatch_s"].get<double>(), 0);
  EXPECT_THAT(plan["device_source"].get<std::string>(), HasSubstr("1 thread,"));
}

TEST(PlanCommand, NamesMistakesAndExits2) {
  const struct {
    std::vector<std::string> arguments;
    const char* says;
  } mistakes[] = {
      {{"--n_head", "5", "--step_s", "1"}, "n_head: 5 does not divide n_embd 384"},
      {{"--nodes", "0", "--step_s", "1"}, "nodes: 0 is out of range"},
      {{"--wire_dtype", "int8", "--step_s", "1"}, "int8 does not go with reduction exact: choose one of int32, int16"},
      {{"--wire_dtype", "int4", "--step_s", "1"}, "int4"},
      {{"--overlap", "maybe", "--step_s", "1"}, "--overlap"},
      {{"--sync_every", "0", "--step_s", "1"}, "--sync_every"},
      {{"--step_s", "0"}, "--microbatch_s: 0 is out of range"},
      {{"--step_s", "1", "--link_mb_s", "nan"}, "--link_mb_s: nan is out of range"},
      {{"--step_s", "1", "--rtt_ms", "-1"}, "--rtt_ms: -1 is out of range"},
      {{"--step_s", "1", "--measure"}, "excludes"},
      {{"--step_s", "1", "--link_mb_s", "100", "--link_gbit_s", "1"}, "excludes"},
      {{"--micobatch_s", "1"}, "did you mean --microbatch_s?"},
  };
  for (const auto& mistake : mistakes) {
    std::vector<std::string> arguments = mistake.arguments;
    arguments.insert(arguments.begin(), "plan");
    const Said said = holdfast(arguments);
    EXPECT_EQ(said.exit_code, 2) << mistake.says;
    EXPECT_THAT(said.err, HasSubstr(mistake.says));
  }
}

Json point(int64_t step, double step_s, double communication_s) {
  return {{"step", step}, {"generation", 1}, {"step_s", step_s}, {"communication_s", communication_s}};
}

// 3 s to warm up; then rank 0 computes 4 of 8 microbatches in 2 s and waits for 0.5.
Json some_points() {
  Json points = Json::array();
  for (int64_t step = 1; step <= 3; ++step) points.push_back(point(step, 3, 0));
  for (int64_t step = 4; step <= 9; ++step) points.push_back(point(step, 2.5, 0.5));
  return points;
}
Json some_ledger() {
  const auto row = [](int rank, int64_t first, int64_t last) {
    return Json{{"first_step", 1},           {"last_step", 9},         {"generation", 1}, {"rank", rank},
                {"first_microbatch", first}, {"last_microbatch", last}};
  };
  return {{"rows", {row(0, 0, 4), row(1, 4, 8)}}};
}

TEST(SpeedOfAJob, IsRank0sComputingOverTheMicrobatchesItHad) {
  EXPECT_DOUBLE_EQ(microbatch_seconds(some_points(), some_ledger()), 0.5);
  EXPECT_EQ(microbatch_seconds(some_points(), {{"rows", Json::array()}}), 0) << "nothing says what it computed";
  EXPECT_EQ(microbatch_seconds(Json::array(), some_ledger()), 0);
}

class SpeedFromTheService : public ::testing::Test {
 protected:
  void know_job(const char* id, const Json& spec) {
    const std::string path = std::string("GET /v1/jobs/") + id;
    service_.answer(path, {{"id", id}, {"spec", rendezvous::to_json(*rendezvous::parse_job_spec(spec))}});
    service_.answer(path + "/metrics", {{"metrics", some_points()}, {"next_page_token", nullptr}});
    service_.answer(path + "/ledger", some_ledger());
  }
  FakeService service_;
};

TEST_F(SpeedFromTheService, IsThatOfTheNewestJobOfThisModel) {
  service_.answer("GET /v1/jobs",
                  {{"jobs", {{{"id", "j3"}, {"step", 9}}, {{"id", "j2"}, {"step", 9}}, {{"id", "j1"}, {"step", 9}}}}});
  know_job("j3", {{"train_data_path", "x"}, {"model", "small"}});
  know_job("j2", {{"train_data_path", "x"}, {"model", "tiny"}, {"batch_size", 4}});
  know_job("j1", {{"train_data_path", "x"}, {"model", "tiny"}, {"batch_size", 8}});
  const Json plan = planned({"--batch_size", "16", "--server", service_.url(), "--token", "t"});
  EXPECT_DOUBLE_EQ(plan["microbatch_s"], 2.0) << "0.5 s for 4 sequences";
  EXPECT_THAT(plan["device_source"].get<std::string>(), HasSubstr("job j2"));
}

TEST_F(SpeedFromTheService, IsAskedForWhenNoJobTellsIt) {
  service_.answer("GET /v1/jobs", {{"jobs", Json::array()}});
  const Said said = holdfast({"plan", "--server", service_.url(), "--token", "t"});
  EXPECT_EQ(said.exit_code, 2);
  EXPECT_THAT(said.err, HasSubstr("none of the newest 20 jobs"));
  EXPECT_THAT(said.err, HasSubstr("Give --device_tokens_per_s or --microbatch_s, or --measure"));
}

TEST(PlanCommand, WithoutAServiceSaysWhatToGive) {
  std::string url;
  {
    const FakeService gone;
    url = gone.url();
  }
  const Said said = holdfast({"plan", "--server", url, "--token", "t"});
  EXPECT_EQ(said.exit_code, 2);
  EXPECT_THAT(said.err, HasSubstr("Give --device_tokens_per_s"));
}

}  // namespace
}  // namespace holdfast::ops

// `holdfast plan`: its flags, its output, and what it asks the service.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/ops/cli/cli_runner.h"
#include "tests/ops/cli/fake_service.h"

namespace holdfast::ops {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using Json = nlohmann::json;

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
  EXPECT_EQ(plan["device_memory_bytes"], nullptr);
}

TEST(PlanCommand, ShowsWhatAWorkerHoldsByPart) {
  const std::vector<std::string> flags = {"plan", "--model", "tiny", "--nodes", "2", "--batch_size", "16", "--memory"};
  const std::string said = holdfast(flags).out;
  for (const char* line :
       {"activations of a microbatch +[0-9.]+ [GM]B +- +[0-9.]+ [GM]B +--recompute block: [0-9]+ MB, --batch_size 1",
        "copies for the ring +- +241[.]1 MB +- +--wire_dtype int16: half", "AdamW's two moments +241[.]1 MB +- +241[.]1 MB",
        "at most +"})
    EXPECT_THAT(said, testing::ContainsRegex(line));
  const Json memory = planned({"--model", "tiny", "--nodes", "2", "--batch_size", "16", "--memory"});
  double device = 0;
  for (const Json& part : memory["parts"]) device += part["place"] == "device" ? part["bytes"].get<double>() : 0;
  EXPECT_DOUBLE_EQ(memory["always"]["gpu_bytes"], device);
  EXPECT_GT(memory["most"]["cpu_bytes"], memory["always"]["cpu_bytes"]);
  EXPECT_THAT(holdfast({"plan", "--model", "small", "--memory", "--device_memory_gib", "1"}).out,
              HasSubstr("does not hold it"));
}

TEST(PlanCommand, ChoosesADivisionOfTheStateByTheMemoryThatIsGiven) {
  std::vector<std::string> flags = {"plan",    "--model", "small",       "--dtype", "bfloat16", "--batch_size", "1",
                                    "--nodes", "4",       "--min_nodes", "4",       "--shard",  "auto",         "--memory"};
  const Said unsaid = holdfast(flags);
  EXPECT_EQ(unsaid.exit_code, 2);
  EXPECT_THAT(unsaid.err, HasSubstr("shard: auto chooses by memory, and none is given: expected --device_memory_gib"));
  const auto with = [&](const char* flag, const char* gib) {
    auto all = flags;
    all.insert(all.end(), {flag, gib});
    return holdfast(all).out;
  };
  EXPECT_THAT(with("--memory_gib", "100"), HasSubstr("--shard auto is none here: it fits the memory of a worker."));
  EXPECT_THAT(with("--memory_gib", "2"), testing::ContainsRegex("--shard auto is [a-z]+ here: with 4 workers [a-z]+ needs "
                                                                "[0-9.]+ GiB, and a worker may take 2.00 GiB[.]"));
  EXPECT_THAT(with("--device_memory_gib", "2"), testing::ContainsRegex("and a worker has a GPU of 2.00 GiB"));
  EXPECT_THAT(holdfast({"plan", "--model", "small", "--memory", "--memory_gib", "2"}).err,
              HasSubstr("--memory_gib: is for --shard auto, and shard is none"));
}

TEST(PlanCommand, SaysFirstWhatTheNodesDoBesideOne) {
  const std::vector<std::string> flags = {
      "--batch_size",   "16",   "--nodes",       "2", "--gradient_accumulation_steps", "8", "--wire_dtype", "int16",
      "--microbatch_s", "0.03", "--link_gbit_s", "1"};
  const Json plan = planned(flags);
  EXPECT_LT(plan["figures"]["of_one_node"], 1);
  const Json same = plan["same_training"];
  EXPECT_EQ(same["settings"]["batch_size"].get<int64_t>() * same["settings"]["gradient_accumulation_steps"].get<int64_t>(),
            128);
  EXPECT_EQ(same["settings"]["sync_every"], 1);
  std::vector<std::string> arguments = {"plan"};
  arguments.insert(arguments.end(), flags.begin(), flags.end());
  const std::string said = holdfast(arguments).out;
  EXPECT_EQ(said.substr(0, said.find('\n')), plan["verdict"].get<std::string>());
  EXPECT_THAT(said.substr(0, said.find('\n')),
              AllOf(HasSubstr("2 nodes"), HasSubstr("of what one does alone"), HasSubstr("More takes another training")));
  EXPECT_THAT(said, HasSubstr("same training"));
}

TEST(PlanCommand, RecommendsNothingThatDoesNotFitTheDevice) {
  const Json plan = planned({"--batch_size", "16", "--nodes", "2", "--gradient_accumulation_steps", "8", "--microbatch_s",
                             "0.03", "--device_memory_gib", "1.5"});
  EXPECT_LE(plan["same_training"]["figures"]["memory_bytes"], 1.5 * (1 << 30));
  EXPECT_DOUBLE_EQ(plan["device_memory_bytes"], 1.5 * (1 << 30));
}

// The settings of both recommendations, for a device so fast that the planner tries everything.
std::vector<Json> settings_recommended(std::vector<std::string> flags) {
  for (const char* flag : {"--nodes", "64", "--microbatch_s", "0.00001"}) flags.emplace_back(flag);
  std::vector<Json> settings;
  const auto recommendations = planned(std::move(flags))["recommendations"];
  for (const Json& recommendation : recommendations) {
    settings.push_back(recommendation["settings"]);
  }
  return settings;
}

TEST(PlanCommand, RecommendsNoJobThatSubmitRefuses) {
  for (const Json& settings : settings_recommended({"--dtype", "float16"})) {
    EXPECT_EQ(settings["sync_every"], 1) << "float16 has no local steps";
    const bool int16_sums_them = settings["gradient_accumulation_steps"].get<int64_t>() * 64 <= 1024;
    EXPECT_TRUE(settings["wire_dtype"] == "int32" || int16_sums_them) << settings;
  }
  for (const Json& settings : settings_recommended({})) {
    EXPECT_EQ(settings["sync_every"], 64) << settings;
    EXPECT_EQ(settings["wire_dtype"], "int16") << "one sum of 64 replicas, whatever the accumulation";
  }
}

TEST(PlanCommand, ExplainsAStepWhenNotEveryStepSyncs) {
  const std::vector<std::string> flags = {"--nodes", "2", "--sync_every", "8", "--microbatch_s", "1"};
  const Json figures = planned(flags)["figures"];
  EXPECT_EQ(figures["tokens_per_optimizer_step"], 2 * 4 * 512);
  EXPECT_EQ(figures["tokens_per_step"], 8 * 2 * 4 * 512);
  EXPECT_DOUBLE_EQ(figures["optimizer_step_s"].get<double>(),
                   figures["optimizer_step_compute_s"].get<double>() + figures["optimizer_step_communication_s"].get<double>());
  std::vector<std::string> arguments = {"plan"};
  arguments.insert(arguments.end(), flags.begin(), flags.end());
  EXPECT_THAT(holdfast(arguments).out,
              HasSubstr("4,096 tokens an optimizer step; a step of the job is 8 of them: 32,768 tokens"));
}

TEST(PlanCommand, TakesTheRateOfADeviceAndTheNameOfALink) {
  const Json plan = planned({"--batch_size", "16", "--device_tokens_per_s", "81920", "--link_gbit_s", "10"});
  EXPECT_DOUBLE_EQ(plan["microbatch_s"], 0.1);
  EXPECT_DOUBLE_EQ(plan["link_bytes_per_s"], 0.94 * 1.25e9);
  EXPECT_EQ(plan["settings"]["wire_dtype"], "int32") << "exact is the default";
  EXPECT_THAT(plan["link_source"].get<std::string>(), HasSubstr("TCP in frames of 1,500 bytes carries 0.94"))
      << "an assumption is said";
}

TEST(PlanCommand, ShowsPeopleTheSameFigures) {
  const Said said = holdfast({"plan", "--nodes", "2", "--microbatch_s", "1", "--link_mb_s", "119", "--overlap", "off",
                              "--gradient_accumulation_steps", "4", "--rtt_ms", "0"});
  EXPECT_EQ(said.exit_code, 0) << said.err;
  for (const char* part : {"30,142,848 parameters", "120.6 MB each way, 1.01 s on the link", "119 MB/s", "int16",
                           "Assumed: ", "for 90 %", "for 97 %", "--wire_dtype int16"}) {
    EXPECT_THAT(said.out, HasSubstr(part));
  }
}

TEST(PlanCommand, MeasuresAMicrobatchHere) {
  std::vector<std::string> flags = {
      "--n_layer", "1",       "--n_embd", "16",        "--n_head",  "2", "--vocab_size", "64", "--block_size",
      "8",         "--dtype", "float32",  "--measure", "--threads", "1"};
  const Json plan = planned(flags);
  EXPECT_GT(plan["microbatch_s"].get<double>(), 0);
  EXPECT_THAT(plan["device_source"].get<std::string>(), AllOf(HasSubstr("1 thread,"), Not(HasSubstr("dropout"))));
  flags.insert(flags.end(), {"--dropout", "0.2"});
  EXPECT_THAT(planned(flags)["device_source"].get<std::string>(), HasSubstr("with dropout; the optimizer is left out"));
}

TEST(PlanCommand, NamesMistakesAndExits2) {
  const struct {
    std::vector<std::string> arguments;
    const char* says;
  } mistakes[] = {
      {{"--n_head", "5", "--step_s", "1"}, "n_head: 5 does not divide n_embd 384"},
      {{"--nodes", "0", "--step_s", "1"}, "nodes: 0 is out of range"},
      {{"--dropout", "1", "--step_s", "1"}, "dropout: 1 is out of range"},
      {{"--wire_dtype", "int8", "--step_s", "1"}, "int8 does not go with reduction exact: choose int32 or int16"},
      {{"--wire_dtype", "int4", "--step_s", "1"}, "int4"},
      {{"--overlap", "maybe", "--step_s", "1"}, "overlap: \"maybe\" is not one of on, off"},
      {{"--sync_every", "0", "--step_s", "1"}, "sync_every: 0 is out of range"},
      {{"--sync_every", "8", "--dtype", "float16", "--step_s", "1"}, "dtype: float16 finds its loss scale"},
      {{"--recompute", "all", "--step_s", "1"}, "recompute: \"all\" is not one of none, attention, block"},
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

class PlanOfAService : public ::testing::Test {
 protected:
  Json planned_there(std::vector<std::string> arguments) {
    for (const std::string& flag : {std::string("--server"), service_.url(), std::string("--token"), std::string("t")})
      arguments.push_back(flag);
    return planned(std::move(arguments));
  }
  FakeService service_;
};

TEST_F(PlanOfAService, TakesTheSpeedTheLinkAndTheMemoryThatTheServiceKnows) {
  service_.answer("POST /v1/plan", {{"microbatch_s", 0.5},
                                    {"device_source", "measured by job j2"},
                                    {"link_known", true},
                                    {"link_bytes_per_s", 61e6},
                                    {"link_source", "measured by job j1"},
                                    {"device_memory_bytes", 8e9},
                                    {"memory_source", "the device of w1"}});
  const Json plan = planned_there({"--nodes", "2", "--batch_size", "16", "--recompute", "block", "--dropout", "0.1"});
  EXPECT_EQ(service_.body_of("POST /v1/plan"),
            (Json{{"spec", {{"nodes", 2}, {"batch_size", 16}, {"recompute", "block"}, {"dropout", 0.1}}}, {"rtt_ms", 0.2}}));
  EXPECT_EQ(plan["microbatch_s"], 0.5);
  EXPECT_EQ(plan["device_source"], "measured by job j2");
  EXPECT_EQ(plan["link_bytes_per_s"], 61e6);
  EXPECT_EQ(plan["link_known"], true);
  EXPECT_EQ(plan["device_memory_bytes"], 8e9);
  const Json given = planned_there({"--nodes", "2", "--link_mb_s", "100", "--device_memory_gib", "1"});
  EXPECT_EQ(given["link_source"], "given");
  EXPECT_EQ(given["device_memory_bytes"], 1 << 30);
}

TEST_F(PlanOfAService, AsksForASpeedWhereTheServiceKnowsNone) {
  service_.problem("POST /v1/plan", 422, "no job here has trained this model");
  const Said said = holdfast({"plan", "--server", service_.url(), "--token", "t"});
  EXPECT_EQ(said.exit_code, 2);
  EXPECT_THAT(said.err, HasSubstr("no job here has trained this model"));
  EXPECT_THAT(said.err, HasSubstr("Give --device_tokens_per_s or --microbatch_s, or --measure"));
}

TEST(PlanCommand, LeavesTheFieldsThatAreToBeKept) {
  std::vector<std::string> flags = {"--batch_size",   "16",  "--nodes", "2", "--gradient_accumulation_steps", "8",
                                    "--microbatch_s", "0.03"};
  EXPECT_NE(planned(flags)["same_training"]["changes"], Json::object());
  flags.insert(flags.end(), {"--keep", "batch_size,wire_dtype,overlap"});
  const Json kept = planned(flags);
  EXPECT_EQ(kept["same_training"]["changes"], Json::object());
  EXPECT_THAT(kept["notes"][0].get<std::string>(), HasSubstr("what was given by name stays; left free, --"));
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

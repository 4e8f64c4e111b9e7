// The job spec: accepted and refused values, the messages of refusals, and how microbatches are dealt.
#include "rendezvous/protocol/job_spec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

namespace holdfast::rendezvous {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;
using Json = nlohmann::json;

Json minimal(const Json& more = Json::object()) {
  Json json = {{"train_data_path", "train.bin"}};
  json.update(more);
  return json;
}

JobSpec parsed(const Json& json) {
  auto spec = parse_job_spec(json);
  if (!spec) {
    for (const FieldError& error : spec.error()) ADD_FAILURE() << error.field << ": " << error.message;
    return {};
  }
  return *spec;
}

// The message about `field`; "" when there is none.
std::string complaint(const Json& json, const std::string& field) {
  const auto spec = parse_job_spec(json);
  if (spec) return "";
  for (const FieldError& error : spec.error()) {
    if (error.field == field) return error.message;
  }
  return "";
}

std::vector<std::string> wrong_fields(const Json& json) {
  std::vector<std::string> fields;
  const auto spec = parse_job_spec(json);
  if (!spec) {
    for (const FieldError& error : spec.error()) fields.push_back(error.field);
  }
  return fields;
}

TEST(JobSpec, FillsInEveryDefault) {
  const JobSpec spec = parsed(minimal());
  EXPECT_EQ(spec.model, "tiny");
  EXPECT_EQ(spec.n_layer, 6);
  EXPECT_EQ(spec.vocab_size, 50257);
  EXPECT_EQ(spec.block_size, 512);
  EXPECT_EQ(spec.microbatches(), 1);
  EXPECT_EQ(spec.max_nodes, 1) << "as many as there are microbatches";
  EXPECT_EQ(spec.global_batch_size, 4);
  EXPECT_EQ(spec.wire_dtype, "int32");
  EXPECT_EQ(spec.overlap, "on");
  EXPECT_EQ(spec.recompute, "none");
  EXPECT_EQ(spec.warmup_steps, 100);
  EXPECT_DOUBLE_EQ(spec.min_lr, 6e-5);
}

TEST(JobSpec, PresetsAreGpt2sSizes) {
  struct Size {
    const char* model;
    int64_t n_layer, n_embd, n_head, block_size;
  };
  for (const Size& size : {Size{"tiny", 6, 384, 6, 512},
                           {"small", 12, 768, 12, 1024},
                           {"medium", 24, 1024, 16, 1024},
                           {"large", 36, 1280, 20, 1024},
                           {"xl", 48, 1600, 25, 1024}}) {
    const JobSpec spec = parsed(minimal({{"model", size.model}}));
    EXPECT_EQ(spec.n_layer, size.n_layer) << size.model;
    EXPECT_EQ(spec.n_embd, size.n_embd) << size.model;
    EXPECT_EQ(spec.n_head, size.n_head) << size.model;
    EXPECT_EQ(spec.block_size, size.block_size) << size.model;
    EXPECT_EQ(spec.vocab_size, 50257) << size.model;
  }
}

TEST(JobSpec, AGivenFieldWinsOverThePreset) {
  const JobSpec spec = parsed(minimal({{"model", "small"}, {"n_layer", 2}, {"vocab_size", 256}}));
  EXPECT_EQ(spec.n_layer, 2);
  EXPECT_EQ(spec.vocab_size, 256);
  EXPECT_EQ(spec.n_embd, 768);
}

TEST(JobSpec, AResolvedSpecReadsBackAsItself) {
  const JobSpec spec = parsed(minimal({{"model", "medium"},
                                       {"nodes", 3},
                                       {"gradient_accumulation_steps", 2},
                                       {"min_nodes", 2},
                                       {"learning_rate", 1e-3},
                                       {"labels", {{"team", "nlp"}}},
                                       {"reduction", "float"},
                                       {"overlap", "off"},
                                       {"ring_tls", "on"},
                                       {"recompute", "block"},
                                       {"replicas", 3},
                                       {"seed", INT64_MAX},
                                       {"collective_timeout_s", 2.5},
                                       {"total_steps", 20}}));
  EXPECT_EQ(job_spec_from_json(to_json(spec)), spec);
  EXPECT_EQ(job_spec_from_json(Json::parse(to_json(spec).dump())), spec) << "through text, too";
  EXPECT_EQ(spec.wire_dtype, "float32");
  EXPECT_EQ(spec.overlap, "off");
  EXPECT_EQ(spec.recompute, "block");
  EXPECT_EQ(spec.max_nodes, 6);
}

TEST(JobSpec, AStoredSpecWithAnErrorThrows) {
  Json json = to_json(parsed(minimal()));
  json["n_head"] = 7;
  EXPECT_THROW(job_spec_from_json(json), std::invalid_argument);
}

TEST(JobSpec, NamesAllErrorsAtOnce) {
  EXPECT_THAT(wrong_fields(minimal({{"n_headd", 2},
                                    {"batch_size", "four"},
                                    {"dtype", "float8"},
                                    {"total_steps", -1},
                                    {"beta1", 1.5},
                                    {"reduction", "exactly"}})),
              UnorderedElementsAre("n_headd", "batch_size", "dtype", "total_steps", "beta1", "reduction"));
  EXPECT_THAT(wrong_fields({{"n_embd", 400}, {"n_head", 6}, {"min_nodes", 9}, {"warmup_steps", 2000}, {"eval_every", 5}}),
              UnorderedElementsAre("train_data_path", "n_head", "min_nodes", "min_nodes", "warmup_steps", "eval_every"));
}

TEST(JobSpec, AFieldThatIsWrongByItselfMisleadsNoRule) {
  EXPECT_THAT(wrong_fields(minimal({{"n_embd", "wide"}, {"n_head", 5}})), ElementsAre("n_embd"));
  EXPECT_THAT(wrong_fields(minimal({{"total_steps", 0}, {"warmup_steps", 5000}})), ElementsAre("total_steps"));
}

TEST(JobSpec, SuggestsTheFieldThatWasMeant) {
  EXPECT_EQ(complaint(minimal({{"learnig_rate", 1}}), "learnig_rate"), "no such field; did you mean learning_rate?");
  EXPECT_EQ(complaint(minimal({{"max_iters", 1}}), "max_iters"), "no such field; nanoGPT's max_iters is total_steps here");
  EXPECT_EQ(complaint(minimal({{"steps_total", 1}}), "steps_total"), "no such field; `holdfast submit --help` lists them all");
}

TEST(JobSpec, JsonTakesNoHyphens) {
  EXPECT_EQ(complaint(minimal({{"learning-rate", 1e-3}}), "learning-rate"), "no such field; did you mean learning_rate?");
}

TEST(JobSpec, AWrongTypeIsNamed) {
  EXPECT_EQ(complaint(minimal({{"n_layer", "6"}}), "n_layer"), "must be an integer, not \"6\"");
  EXPECT_EQ(complaint(minimal({{"n_layer", 6.5}}), "n_layer"), "must be an integer, not 6.5");
  EXPECT_EQ(complaint(minimal({{"n_layer", true}}), "n_layer"), "must be an integer, not true");
  EXPECT_EQ(complaint(minimal({{"n_layer", nullptr}}), "n_layer"), "must be an integer, not null");
  EXPECT_EQ(complaint(minimal({{"learning_rate", "fast"}}), "learning_rate"), "must be a number, not \"fast\"");
  EXPECT_EQ(complaint(minimal({{"name", 7}}), "name"), "must be a string, not 7");
  EXPECT_THAT(complaint(minimal({{"labels", {"a", "b"}}}), "labels"), HasSubstr("must be an object"));
  EXPECT_THAT(complaint(Json::array({1}), ""), HasSubstr("JSON object"));
}

TEST(JobSpec, AnIntegerMayBeWrittenAsAWholeFloat) {
  EXPECT_EQ(parsed(minimal({{"total_steps", 60.0}})).total_steps, 60);
}

TEST(JobSpec, AValueOutOfRangeIsNamedWithTheRange) {
  EXPECT_EQ(complaint(minimal({{"vocab_size", 65537}}), "vocab_size"), "65537 is out of range: 2 to 65536");
  EXPECT_EQ(complaint(minimal({{"learning_rate", 0}}), "learning_rate"), "0 is out of range: above 0, at most 10");
  EXPECT_EQ(complaint(minimal({{"beta2", 1}}), "beta2"), "1 is out of range: at least 0, below 1");
  EXPECT_EQ(complaint(minimal({{"collective_timeout_s", 0.5}}), "collective_timeout_s"),
            "0.5 is out of range: at least 1, at most 3600");
  EXPECT_EQ(complaint(minimal({{"collective_timeout_s", 3601}}), "collective_timeout_s"),
            "3601 is out of range: at least 1, at most 3600");
  EXPECT_EQ(complaint(minimal({{"seed", -1}}), "seed"), "-1 is out of range: at least 0");
  EXPECT_THAT(complaint(minimal({{"seed", UINT64_MAX}}), "seed"), HasSubstr("out of range"));
  EXPECT_THAT(complaint(minimal({{"total_steps", 1e300}}), "total_steps"), HasSubstr("out of range"));
  EXPECT_EQ(complaint(minimal({{"dtype", "float8"}}), "dtype"), "\"float8\" is not one of float32, bfloat16, float16");
  EXPECT_EQ(complaint(minimal({{"model", ""}}), "model"), "\"\" is not one of tiny, small, medium, large, xl");
}

TEST(JobSpec, AnUnknownKindOfStoreIsRefusedWithTheKnownOnes) {
  EXPECT_THAT(complaint(minimal({{"checkpoint_store", "gs://bucket"}}), "checkpoint_store"), HasSubstr("not in this version"));
}

TEST(JobSpec, TheWireGoesWithTheReduction) {
  EXPECT_THAT(complaint(minimal({{"wire_dtype", "float32"}}), "wire_dtype"), HasSubstr("choose int32"));
  EXPECT_THAT(complaint(minimal({{"reduction", "float"}, {"wire_dtype", "int32"}}), "wire_dtype"), HasSubstr("choose float32"));
  EXPECT_EQ(parsed(minimal({{"reduction", "float"}})).wire_dtype, "float32");
  for (const char* wire : {"int32", "int16"}) EXPECT_EQ(parsed(minimal({{"wire_dtype", wire}})).wire_dtype, wire);
  for (const char* wire : {"float32", "bfloat16", "float16", "int8"}) {
    EXPECT_EQ(parsed(minimal({{"reduction", "float"}, {"wire_dtype", wire}})).wire_dtype, wire);
    EXPECT_THAT(complaint(minimal({{"wire_dtype", wire}}), "wire_dtype"), HasSubstr("choose int32 or int16"));
  }
  EXPECT_THAT(complaint(minimal({{"reduction", "float"}, {"wire_dtype", "int16"}}), "wire_dtype"),
              HasSubstr("choose float32, bfloat16, float16 or int8"));
  EXPECT_THAT(complaint(minimal({{"wire_dtype", "int4"}}), "wire_dtype"), HasSubstr("is not one of int32, int16"));
}

TEST(JobSpec, Int16HasRoomFor1024Microbatches) {
  const auto with = [](int64_t microbatches, const char* wire) {
    return minimal({{"batch_size", 1}, {"global_batch_size", microbatches}, {"wire_dtype", wire}});
  };
  EXPECT_EQ(parsed(with(1024, "int16")).microbatches(), 1024);
  EXPECT_EQ(
      complaint(with(1025, "int16"), "wire_dtype"),
      "int16 sums at most 1024 microbatches, with 5 bits and a sign for each, and a step has 1025: choose int32, a larger "
      "batch_size or a smaller global batch");
  EXPECT_EQ(parsed(with(1025, "int32")).wire_dtype, "int32");
}

TEST(JobSpec, SwitchesAndRecomputeTakeOnlyTheirWords) {
  for (auto field : {"overlap", "ring_tls"}) EXPECT_THAT(complaint(minimal({{field, 1}}), field), HasSubstr("be a string"));
  EXPECT_THAT(complaint(minimal({{"recompute", "all"}}), "recompute"), HasSubstr("not one of none, attention, block"));
  for (auto field : {"overlap", "ring_tls"}) EXPECT_THAT(complaint(minimal({{field, "yes"}}), field), HasSubstr("of on, off"));
  const auto few_syncs = [](Json more) {
    more.update({{"sync_every", 8}, {"batch_size", 4}, {"nodes", 2}});
    return minimal(std::move(more));
  };
  EXPECT_THAT(complaint(few_syncs({{"global_batch_size", 12}}), "nodes"), HasSubstr("choose global_batch_size 16"));
  EXPECT_THAT(complaint(few_syncs({{"max_nodes", 3}}), "max_nodes"), HasSubstr("more than the 2 replicas"));
  EXPECT_THAT(complaint(few_syncs({{"dtype", "float16"}}), "dtype"), HasSubstr("choose bfloat16 or float32"));
}

TEST(JobSpec, AStateIsDividedWhereItCanBe) {
  const JobSpec spec = parsed(minimal({{"shard", "optimizer"}, {"nodes", 3}, {"gradient_accumulation_steps", 2}}));
  EXPECT_EQ(spec.replicas, 2);
  EXPECT_EQ(parsed(minimal()).shard, "none");
  EXPECT_EQ(parsed(minimal({{"shard", "optimizer"}})).replicas, 2) << "of one worker";
  EXPECT_THAT(complaint(minimal({{"shard", "zero"}}), "shard"), HasSubstr("not one of none, optimizer"));
  EXPECT_EQ(parsed(minimal({{"shard", "auto"}, {"reduction", "float"}})).shard, "auto") << "chosen is none";
  EXPECT_EQ(parsed(minimal({{"shard", "auto"}, {"sync_every", 8}, {"nodes", 2}})).shard, "auto");
  EXPECT_THAT(complaint(minimal({{"replicas", 0}}), "replicas"), HasSubstr("1 to 1024"));
  EXPECT_EQ(complaint(minimal({{"shard", "optimizer"}, {"replicas", 5}, {"nodes", 2}, {"gradient_accumulation_steps", 2}}),
                      "replicas"),
            "5 is more than the workers that a step's 4 microbatch(es) can be dealt to: choose at most 4");
  EXPECT_THAT(complaint(minimal({{"shard", "optimizer"}, {"sync_every", 8}, {"nodes", 2}}), "shard"),
              HasSubstr("does not go with local steps (sync_every 8)"));
  EXPECT_THAT(complaint(minimal({{"shard", "optimizer"}, {"reduction", "float"}}), "shard"),
              HasSubstr("choose reduction exact"));
}

TEST(JobSpec, HeadsDivideTheChannels) {
  EXPECT_EQ(complaint(minimal({{"n_embd", 400}, {"n_head", 6}}), "n_head"),
            "6 does not divide n_embd 400: choose a divisor such as 4, 5 or 8");
}

TEST(JobSpec, TheGlobalBatchIsWholeMicrobatches) {
  EXPECT_EQ(parsed(minimal({{"batch_size", 2}, {"global_batch_size", 12}})).microbatches(), 6);
  EXPECT_EQ(complaint(minimal({{"batch_size", 4}, {"global_batch_size", 10}}), "global_batch_size"),
            "10 is not a multiple of batch_size 4: choose 8 or 12");
  EXPECT_EQ(complaint(minimal({{"batch_size", 4}, {"global_batch_size", 3}}), "global_batch_size"),
            "3 is not a multiple of batch_size 4: choose 4");
}

TEST(JobSpec, EveryWorkerHasAMicrobatch) {
  EXPECT_THAT(complaint(minimal({{"nodes", 3}, {"global_batch_size", 8}}), "nodes"),
              AllOf(HasSubstr("3 is more than the 2 microbatch(es)"), HasSubstr("raise")));
  EXPECT_THAT(complaint(minimal({{"max_nodes", 2}}), "max_nodes"), HasSubstr("2 is more than the 1"));
  EXPECT_EQ(parsed(minimal({{"gradient_accumulation_steps", 2}, {"nodes", 3}})).microbatches(), 6);
}

TEST(JobSpec, NodesAreBetweenTheirBounds) {
  EXPECT_EQ(complaint(minimal({{"nodes", 2}, {"min_nodes", 3}, {"gradient_accumulation_steps", 4}}), "min_nodes"),
            "3 is above nodes 2: lower min_nodes or raise nodes");
  EXPECT_EQ(complaint(minimal({{"nodes", 4}, {"max_nodes", 2}}), "max_nodes"),
            "2 is below nodes 4: raise max_nodes, or leave it out");
}

TEST(JobSpec, DefaultsFollowTheOtherFieldsAndBreakNoRule) {
  const JobSpec spec = parsed(minimal({{"total_steps", 20}, {"learning_rate", 1e-5}}));
  EXPECT_EQ(spec.warmup_steps, 2);
  EXPECT_DOUBLE_EQ(spec.min_lr, 1e-6);
  EXPECT_EQ(complaint(minimal({{"total_steps", 20}, {"warmup_steps", 21}}), "warmup_steps"),
            "21 is above total_steps 20: choose at most 20");
  EXPECT_THAT(complaint(minimal({{"learning_rate", 1e-5}, {"min_lr", 1e-4}}), "min_lr"), HasSubstr("above learning_rate"));
}

TEST(JobSpec, EpochsBecomeStepsWhenTheLengthOfTheDataIsKnown) {
  const JobSpec spec =
      parsed(minimal({{"epochs", 3}, {"batch_size", 4}, {"gradient_accumulation_steps", 2}, {"nodes", 2}, {"block_size", 10}}));
  EXPECT_EQ(spec.steps_over(0), 0) << "not known yet";
  EXPECT_EQ(spec.steps_over(1001), 19) << "100 sequences, 3 times, by 16: 18.75";
  EXPECT_EQ(spec.steps_over(5), 1) << "never none";
  const JobSpec known = spec.with_steps_over(1001);
  EXPECT_EQ(known.total_steps, 19);
  EXPECT_EQ(known.warmup_steps, 1) << "a tenth, as where total_steps is given";
  EXPECT_EQ(known.epochs, 0);
  EXPECT_EQ(parsed(to_json(known)), known) << "a checkpoint's manifest has it";
  EXPECT_EQ(parsed(minimal({{"epochs", 3}, {"warmup_steps", 7}, {"block_size", 10}})).with_steps_over(1001).warmup_steps, 7);
  EXPECT_EQ(parsed(minimal()).steps_over(1001), 1000) << "total_steps counts";
}

TEST(JobSpec, ASpecWithEpochsIsWrittenAndReadWithoutSteps) {
  const JobSpec spec = parsed(minimal({{"epochs", 2}}));
  const nlohmann::json json = to_json(spec);
  EXPECT_FALSE(json.contains("total_steps"));
  EXPECT_FALSE(json.contains("warmup_steps"));
  EXPECT_EQ(parsed(json), spec);
  EXPECT_EQ(job_spec_from_json(to_json_for_workers(spec)).epochs, 2);
}

TEST(JobSpec, EpochsAndStepsTogetherAreRefused) {
  EXPECT_EQ(complaint(minimal({{"epochs", 2}, {"total_steps", 100}}), "epochs"),
            "2 is given together with total_steps 100, and both say how long to train: leave one out");
  EXPECT_EQ(parsed(minimal({{"epochs", 0}, {"total_steps", 100}})).total_steps, 100);
}

TEST(JobSpec, StringsAndLabelsAreBounded) {
  EXPECT_THAT(complaint(minimal({{"name", std::string(101, 'a')}}), "name"), HasSubstr("at most 100"));
  EXPECT_EQ(complaint(minimal({{"name", "a\nb"}}), "name"), "has control characters in it");
  EXPECT_THAT(complaint(minimal({{"name", "j12"}}), "name"), HasSubstr("looks like a job id"));
  EXPECT_THAT(complaint(minimal({{"labels", {{"a b", "c"}}}}), "labels"), HasSubstr("letters, digits"));
  EXPECT_THAT(complaint(minimal({{"labels", {{"a", std::string(256, 'x')}}}}), "labels"), HasSubstr("255 bytes"));
  Json many = Json::object();
  for (int i = 0; i < 33; ++i) many["k" + std::to_string(i)] = "v";
  EXPECT_THAT(complaint(minimal({{"labels", many}}), "labels"), HasSubstr("at most 32"));
}

TEST(JobSpec, CheckpointStoreAndResumeFromHaveAForm) {
  EXPECT_EQ(complaint(minimal({{"resume_from", "job:j1@x"}}), "resume_from"),
            "job:j1@x: expected job:ID or job:ID@STEP, such as job:j1@60");
  for (const char* good : {"latest", "60", "job:j1", "job:j1@60", "/shared/ckpt", "s3://bucket/j1@60"})
    EXPECT_EQ(complaint(minimal({{"resume_from", good}}), "resume_from"), "");
  EXPECT_THAT(complaint(minimal({{"checkpoint_store", "ckpt"}}), "checkpoint_store"), HasSubstr("absolute path"));
  for (const char* good : {"", "/shared", "file:///shared", "s3://bucket/a?endpoint=http://host:9000"})
    EXPECT_EQ(complaint(minimal({{"checkpoint_store", good}}), "checkpoint_store"), "");
}

TEST(JobSpec, InitialWeightsAreAPlaceAndNotNanoGptsWords) {
  EXPECT_EQ(complaint(minimal({{"init_from", "/models/gpt2"}}), "init_from"), "");
  EXPECT_THAT(complaint(minimal({{"init_from", "gpt2-medium"}}), "init_from"), HasSubstr("nothing is fetched from elsewhere"));
  EXPECT_THAT(complaint(minimal({{"init_from", "resume"}}), "init_from"), HasSubstr("--resume_from latest"));
  EXPECT_THAT(complaint(minimal({{"init_from", "/m"}, {"resume_from", "60"}}), "init_from"),
              HasSubstr("leave one of them out"));
}

TEST(JobSpec, RequirementsAreStringsOrNumbersAndKnownOnesAreChecked) {
  const JobSpec spec = parsed(minimal({{"requires", {{"device", "hip"}, {"memory_gib", 24}, {"rack", 3}, {"zone", "a"}}}}));
  EXPECT_EQ(spec.requirements.at("memory_gib"), "24");
  EXPECT_EQ(spec.requirements.at("rack"), "3");
  EXPECT_EQ(job_spec_from_json(to_json(spec)), spec);
  EXPECT_EQ(complaint(minimal({{"requires", {{"device", "gpu"}}}}), "requires"),
            "device=gpu: there is no such kind of device: choose cpu, hip or cuda");
  for (const char* size : {"-1", "0", "24 GB", "nan", "inf", ""})
    EXPECT_THAT(complaint(minimal({{"requires", {{"memory_gib", size}}}}), "requires"), HasSubstr("is no size")) << size;
  EXPECT_THAT(complaint(minimal({{"requires", {{"zone", true}}}}), "requires"), HasSubstr("must be a string"));
  EXPECT_THAT(complaint(minimal({{"labels", {{"zone", 3}}}}), "labels"), HasSubstr("must be a string"));
}

TEST(JobSpec, WorkersGetAllFieldsExceptTheServicesOwn) {
  JobSpec spec = parsed(minimal({{"retries", 3}, {"after", "j1"}, {"max_runtime", 60}, {"requires", {{"zone", "a"}}}}));
  const Json told = to_json_for_workers(spec);
  for (const char* field : {"retries", "retry_delay", "after", "max_runtime", "requires"})
    EXPECT_FALSE(told.contains(field)) << field;
  const JobSpec understood = job_spec_from_json(told);
  spec.retries = spec.max_runtime = 0;
  spec.after.clear();
  spec.requirements.clear();
  EXPECT_EQ(understood, spec);
}

TEST(JobSpecFields, ListEveryFieldOnceWithHelp) {
  Json written = to_json(parsed(minimal()));
  written.update(to_json(parsed({{"kind", "serve"}, {"init_from", "job:j1"}})));  // each has some that the other has not
  std::set<std::string> names;
  for (const SpecField& field : job_spec_fields()) {
    EXPECT_TRUE(names.insert(field.name).second) << field.name;
    EXPECT_TRUE(written.contains(field.name)) << field.name;
    EXPECT_FALSE(field.help.empty() || field.range.empty()) << field.name;
    EXPECT_THAT((std::set<std::string>{"string", "integer", "number", "map"}), ::testing::Contains(field.type));
  }
  EXPECT_EQ(names.size(), written.size());
}

TEST(Deal, IsDisjointCompleteAndEven) {
  for (int64_t microbatches = 1; microbatches <= 40; ++microbatches) {
    for (int world_size = 1; world_size <= microbatches; ++world_size) {
      int64_t next = 0, fewest = microbatches, most = 0;
      for (int rank = 0; rank < world_size; ++rank) {
        const Share share = deal(microbatches, world_size, rank);
        ASSERT_EQ(share.first, next) << microbatches << " over " << world_size;
        next = share.last;
        fewest = std::min(fewest, share.last - share.first);
        most = std::max(most, share.last - share.first);
      }
      EXPECT_EQ(next, microbatches);
      EXPECT_LE(most - fewest, 1);
      EXPECT_GE(fewest, 1);
    }
  }
}

TEST(Deal, GivesTheRemainderToTheFirstRanks) {
  std::vector<int64_t> sizes;
  for (int rank = 0; rank < 4; ++rank) sizes.push_back(deal(6, 4, rank).last - deal(6, 4, rank).first);
  EXPECT_THAT(sizes, ElementsAre(2, 2, 1, 1));
}

}  // namespace
}  // namespace holdfast::rendezvous

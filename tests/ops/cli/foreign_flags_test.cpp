// The flags that people bring from torchrun, nanoGPT's train.py and the guides for such scripts: taken, or refused with what to
// do instead; none is met with a guess.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>
#include <span>

#include "rendezvous/protocol/foreign_names.h"
#include "rendezvous/protocol/job_spec.h"
#include "tests/ops/cli/fake_jobs.h"

namespace holdfast::ops {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

// Written down here once more, from the programs themselves.
constexpr const char* kTorchrun[] = {
    // `torchrun --help` of PyTorch 1.13
    "nnodes", "nproc_per_node", "rdzv_backend", "rdzv_endpoint", "rdzv_id", "rdzv_conf", "standalone", "max_restarts",
    "monitor_interval", "start_method", "role", "module", "no_python", "run_path", "log_dir", "redirects", "tee", "node_rank",
    "master_addr", "master_port",
    // of 2.6 and later
    "local_addr", "logs_specs", "local_ranks_filter", "event_log_handler", "numa_binding", "signals_to_handle",
    "virtual_local_rank", "duplicate_stdout_filters", "duplicate_stderr_filters",
    // of torch.distributed.launch
    "use_env", "local_rank"};
constexpr const char* kNanoGpt[] = {"out_dir",       "eval_interval",
                                    "log_interval",  "eval_iters",
                                    "eval_only",     "always_save_checkpoint",
                                    "init_from",     "wandb_log",
                                    "wandb_project", "wandb_run_name",
                                    "dataset",       "gradient_accumulation_steps",
                                    "batch_size",    "block_size",
                                    "n_layer",       "n_head",
                                    "n_embd",        "dropout",
                                    "bias",          "learning_rate",
                                    "max_iters",     "weight_decay",
                                    "beta1",         "beta2",
                                    "grad_clip",     "decay_lr",
                                    "warmup_iters",  "lr_decay_iters",
                                    "min_lr",        "backend",
                                    "device",        "dtype",
                                    "compile",       "seed"};
constexpr const char* kGuides[] = {"nproc_per_node",
                                   "batch_size",
                                   "distributed",
                                   "master_port",
                                   "standalone",
                                   "node_rank",
                                   "nnodes",
                                   "master_addr",
                                   "valid_data_path",
                                   "train_data_path",
                                   "gradient_accumulation_steps",
                                   "use_chinese",
                                   "model_size",
                                   "max_length",
                                   "fp16",
                                   "bf16",
                                   "dtype",
                                   "world_size",
                                   "total_steps",
                                   "output_dir",
                                   "model_save_dir",
                                   "max_iters",
                                   "logdir",
                                   "epochs",
                                   "backend",
                                   "wandb_run_name",
                                   "wandb_project",
                                   "use_wandb",
                                   "test_distributed_communication",
                                   "resume_from",
                                   "num_gpus",
                                   "n_layer",
                                   "n_embd",
                                   "logging_steps",
                                   "save_steps",
                                   "local_rank",
                                   "deepspeed_config",
                                   "deepspeed",
                                   "gradient_checkpointing",
                                   "num_workers",
                                   "pin_memory",
                                   "optimizer",
                                   "train_batch_size",
                                   "zero_optimization",
                                   "zero_stage",
                                   "fsdp",
                                   "tp_size",
                                   "pipeline_parallel_size"};

bool is_field(const std::string& name) {
  return std::ranges::find(rendezvous::job_spec_fields(), name, &rendezvous::SpecField::name) !=
         rendezvous::job_spec_fields().end();
}

TEST(ForeignNames, EveryNameStandsOnceIsNoFieldAndSaysWhatToDo) {
  std::set<std::string> seen;
  for (const rendezvous::ForeignName& name : rendezvous::foreign_names()) {
    EXPECT_TRUE(seen.insert(name.name).second) << name.name << " stands there twice";
    EXPECT_FALSE(is_field(name.name)) << name.name;
    const std::string field = name.field, instead = name.instead;
    EXPECT_NE(field.empty(), instead.empty()) << name.name << " means a field, or it says what to do instead";
    EXPECT_TRUE(field.empty() || is_field(field)) << name.name << " is " << field;
  }
}

TEST(ForeignNames, EveryFlagOfTheThreeVocabulariesIsAFieldOrKnown) {
  for (const auto& vocabulary : {std::span<const char* const>(kTorchrun), std::span<const char* const>(kNanoGpt),
                                 std::span<const char* const>(kGuides)}) {
    for (const std::string name : vocabulary)
      EXPECT_TRUE(is_field(name) || rendezvous::find_foreign_name(name) != nullptr) << name;
  }
}

TEST(ForeignNames, OfSchedulesSayHowTheirsDifferWhereTheyAreTold) {
  const rendezvous::ForeignName& decay = *rendezvous::find_foreign_name("decay_lr");
  EXPECT_THAT(rendezvous::foreign_name_in_words(decay), HasSubstr("; false has no warm-up there: add --warmup_steps 0)"));
  const rendezvous::ForeignName& type = *rendezvous::find_foreign_name("lr_scheduler_type");
  EXPECT_THAT(
      rendezvous::foreign_name_in_words(type),
      AllOf(HasSubstr("; all but constant fall to 0 there: add --min_lr 0; warmup_stable_decay falls along a cosine there"),
            HasSubstr("add --warmup_steps 0)")));
  const rendezvous::ForeignName& style = *rendezvous::find_foreign_name("lr_decay_style");
  EXPECT_THAT(rendezvous::foreign_name_in_words(style), HasSubstr("wsd falls exponentially there, here in a line)"));
  const std::string table = holdfast({"help", "torchrun", "--json"}).out;
  EXPECT_THAT(table, AllOf(HasSubstr(decay.values), HasSubstr(type.values), HasSubstr(style.values)));
  EXPECT_EQ(rendezvous::own_value(decay, "False"), "constant");
  EXPECT_FALSE(rendezvous::own_value(decay, "add")) << "a word that is for people";
}

TEST_F(Jobs, SubmitTakesTheNamesOfOthersInPlaceOfItsOwn) {
  service_.answer("POST /v1/jobs", a_job("queued"), 201);
  const Said said =
      run({"submit", "--train_data_path", "/d/t.bin", "--model_size", "tiny", "--fp16", "--max-length=256", "--nnodes", "2",
           "--max_iters", "2000", "--warmup_iters", "10", "--eval_interval", "250", "--eval_iters", "20"});
  EXPECT_EQ(said.exit_code, 0) << said.err;
  EXPECT_EQ(service_.body_of("POST /v1/jobs"), (Json{{"train_data_path", "/d/t.bin"},
                                                     {"model", "tiny"},
                                                     {"dtype", "float16"},
                                                     {"block_size", 256},
                                                     {"nodes", 2},
                                                     {"total_steps", 2000},
                                                     {"warmup_steps", 10},
                                                     {"eval_every", 250},
                                                     {"eval_microbatches", 20}}));
}

TEST_F(Jobs, SubmitTakesANanoGptCommandThatAsksForNothingElse) {
  service_.answer("POST /v1/jobs", a_job("queued"), 201);
  const Said said =
      run({"submit", "--train_data_path", "/d/t.bin", "--compile=False", "--dropout=0.0", "--bias=True", "--wandb_log=False",
           "--decay_lr=True", "--init_from=scratch", "--bf16=False", "--n_layer=4", "--max_iters=2000"});
  EXPECT_EQ(said.exit_code, 0) << said.err;
  EXPECT_EQ(service_.body_of("POST /v1/jobs"), (Json{{"train_data_path", "/d/t.bin"},
                                                     {"lr_schedule", "cosine"},
                                                     {"n_layer", 4},
                                                     {"total_steps", 2000},
                                                     {"dropout", 0},
                                                     {"biases", "on"}}));
}

TEST_F(Jobs, SubmitNamesAllThatHasNoCounterpartAtOnceAndAsksNoService) {
  const Said said = run(
      {"submit", "--train_data_path", "/d/t.bin", "--backend", "nccl", "--use_wandb", "--compile", "True", "--nnodes", "1:4"});
  EXPECT_EQ(said.exit_code, 2);
  EXPECT_THAT(said.err, AllOf(HasSubstr("PyTorch's backend is not taken here: between nodes workers talk over TCP"),
                              HasSubstr("use_wandb"), HasSubstr("nanoGPT's compile"),
                              HasSubstr("nnodes 1:4 is --min_nodes 1 --nodes 4 here"), HasSubstr("holdfast help torchrun")));
  EXPECT_TRUE(service_.requests("POST /v1/jobs").empty());
}

TEST_F(Jobs, EachNameOfTheThreeVocabulariesIsTakenOrNamed) {
  service_.answer("POST /v1/jobs", a_job("queued"), 201);
  for (const rendezvous::ForeignName& name : rendezvous::foreign_names()) {
    const std::string values = name.values, typed = values.empty() ? "7" : values.substr(0, values.find('='));
    const Said said = run({"submit", "--train_data_path", "/d/t.bin", std::string("--") + name.name, typed});
    EXPECT_EQ(said.exit_code == 0, *name.field != '\0') << name.name << ": " << said.err;
    EXPECT_THAT(said.err, HasSubstr(name.instead)) << name.name;
  }
}

TEST_F(Jobs, AFieldThatIsGivenByTwoNamesMustBeGivenTheSame) {
  service_.answer("POST /v1/jobs", a_job("queued"), 201);
  EXPECT_EQ(run({"submit", "--model", "tiny", "--model_size", "tiny"}).exit_code, 0);
  const Said said = run({"submit", "--model", "small", "--model_size", "tiny"});
  EXPECT_EQ(said.exit_code, 2);
  EXPECT_THAT(said.err, HasSubstr("model_size is model here, and both are given: tiny and small; leave one away"));
}

TEST_F(Jobs, NamesOfOthersInAFileAreTakenAndFlagsWinOverThem) {
  const fs::path file = fs::temp_directory_path() / ("holdfast-foreign-" + std::to_string(getpid()) + ".json");
  std::ofstream(file)
      << R"({"train_data_path": "/d/t.bin", "max_iters": 5, "eval_interval": 2, "compile": false, "bias": true})";
  EXPECT_EQ(Json::parse(run({"submit", "--config", file, "--print_config", "--total_steps", "7"}).out),
            (Json{{"train_data_path", "/d/t.bin"}, {"total_steps", 7}, {"eval_every", 2}, {"biases", "on"}}));
  EXPECT_EQ(Json::parse(run({"submit", "--config", file, "--print_config", "--max_iters", "8"}).out)["total_steps"], 8);
  const auto length = [&](const std::string& flag, const std::string& value) {
    Json printed = Json::parse(run({"submit", "--config", file, "--print_config", flag, value}).out);
    printed.erase("train_data_path");
    return printed;
  };
  std::ofstream(file) << R"({"train_data_path": "/d/t.bin", "total_steps": 6})";
  EXPECT_EQ(length("--epochs", "3"), (Json{{"epochs", 3}})) << "how long it is, in other words";
  EXPECT_EQ(length("--num_train_epochs", "3"), (Json{{"epochs", 3}}));
  EXPECT_EQ(length("--epochs", "0"), (Json{{"epochs", 0}, {"total_steps", 6}}));
  std::ofstream(file) << R"({"train_data_path": "/d/t.bin", "epochs": 2})";
  EXPECT_EQ(length("--total_steps", "7"), (Json{{"total_steps", 7}}));
  std::ofstream(file) << R"({"train_data_path": "/d/t.bin", "max_iters": 5, "total_steps": 6, "compile": true})";
  const Said said = run({"submit", "--config", file, "--print_config"});
  EXPECT_EQ(said.exit_code, 2);
  EXPECT_THAT(said.err, AllOf(HasSubstr("both are given: 5 and 6"), HasSubstr("compile")));
  fs::remove(file);
}

TEST_F(Jobs, AFileOfDeepSpeedIsTakenWhereItMeansTheSame) {
  const fs::path file = fs::temp_directory_path() / ("holdfast-deepspeed-" + std::to_string(getpid()) + ".json");
  std::ofstream(file)
      << R"({"train_data_path": "/d/t.bin", "train_batch_size": 16, "fp16": {"enabled": true, "loss_scale": 0}})";
  EXPECT_EQ(Json::parse(run({"submit", "--config", file, "--print_config", "--gradient_checkpointing"}).out),
            (Json{{"train_data_path", "/d/t.bin"}, {"global_batch_size", 16}, {"dtype", "float16"}, {"recompute", "block"}}));
  std::ofstream(file) << R"({"train_data_path": "/d/t.bin", "fp16": {"enabled": false}})";
  EXPECT_EQ(Json::parse(run({"submit", "--config", file, "--print_config"}).out), (Json{{"train_data_path", "/d/t.bin"}}));
  std::ofstream(file) << R"({"train_data_path": "/d/t.bin", "zero_optimization": {"stage": 3, "overlap_comm": true}})";
  EXPECT_EQ(Json::parse(run({"submit", "--config", file, "--print_config"}).out),
            (Json{{"train_data_path", "/d/t.bin"}, {"shard", "parameters"}}));
  std::ofstream(file) << R"({"train_data_path": "/d/t.bin",
                             "zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"}}})";
  EXPECT_EQ(Json::parse(run({"submit", "--config", file, "--print_config"}).out),
            (Json{{"train_data_path", "/d/t.bin"}, {"shard", "gradients"}, {"offload", "optimizer"}}));
  std::ofstream(file)
      << R"({"train_data_path": "/d/t.bin", "zero_optimization": {"stage": 2, "offload_optimizer": {"device": "nvme"}}})";
  Said said = run({"submit", "--config", file, "--print_config"});
  EXPECT_EQ(said.exit_code, 2);
  EXPECT_THAT(said.err, HasSubstr("offload_optimizer is offload here (none=none cpu=optimizer); nvme is none of these"));
  std::ofstream(file)
      << R"({"train_data_path": "/d/t.bin", "zero_optimization": {"stage": 3, "offload_param": {"device": "cpu"}}})";
  said = run({"submit", "--config", file, "--print_config"});
  EXPECT_EQ(said.exit_code, 2);
  EXPECT_THAT(said.err,
              HasSubstr("DeepSpeed's offload_param is not taken here: parameters to compute with stay in the memory"));
  fs::remove(file);
}

TEST_F(Jobs, TheStagesOfZeroAndTheStrategiesOfFsdpAreWaysToShard) {
  const std::pair<std::vector<std::string>, const char*> cases[] = {
      {{"--zero", "1"}, "optimizer"},  {{"--zero_stage=2"}, "gradients"},
      {{"--zero", "3"}, "parameters"}, {{"--fsdp", "full_shard"}, "parameters"},
      {{"--fsdp"}, "parameters"},      {{"--fsdp=SHARD_GRAD_OP auto_wrap"}, "gradients"},
      {{"--zero", "0"}, "none"},       {{"--fsdp", "no_shard"}, "none"}};
  for (const auto& [flags, shard] : cases) {
    std::vector<std::string> words{"submit", "--train_data_path", "/d/t.bin", "--print_config"};
    words.insert(words.end(), flags.begin(), flags.end());
    EXPECT_EQ(Json::parse(run(words).out)["shard"], shard) << flags.front();
  }
  const Said said = run({"submit", "--train_data_path", "/d/t.bin", "--zero", "4"});
  EXPECT_EQ(said.exit_code, 2);
  EXPECT_THAT(said.err,
              HasSubstr("DeepSpeed's zero is shard here (0=none 1=optimizer 2=gradients 3=parameters); 4 is none of these"));
}

TEST(Usage, OtherCommandsSayWhatAFlagOfOthersIsHere) {
  const Said plan = holdfast({"plan", "--max_length", "512"});
  EXPECT_EQ(plan.exit_code, 2);
  EXPECT_THAT(plan.err, HasSubstr("--max_length: no such option; a training script's max_length is block_size here"));
  EXPECT_THAT(holdfast({"ls", "--max_iters=3"}).err,
              HasSubstr("nanoGPT's max_iters is total_steps here, a flag of `holdfast submit`"));
  EXPECT_THAT(holdfast({"nodes", "--rdzv-id", "3"}).err,
              AllOf(HasSubstr("torchrun's rdzv_id is not taken here"), Not(HasSubstr("did you mean"))));
}

TEST(Usage, HelpTorchrunIsTheTable) {
  const std::string table = holdfast({"help", "torchrun"}).out;
  for (const rendezvous::ForeignName& name : rendezvous::foreign_names())
    EXPECT_THAT(table, HasSubstr(std::string("--") + name.name));
  EXPECT_THAT(table, HasSubstr("--total_steps"));
}

TEST(Usage, SubmitsHelpShowsItsOwnNamesAlone) {
  EXPECT_THAT(holdfast({"submit", "--help"}).out, Not(HasSubstr("--max_iters")));
}

}  // namespace
}  // namespace holdfast::ops

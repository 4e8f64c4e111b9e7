// The division of a state that is chosen for the memory of workers.
#include "rendezvous/plan/fit.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <random>

namespace holdfast::rendezvous {
namespace {

using testing::HasSubstr;

constexpr double kGib = 1 << 30;

JobSpec small_gpt2() {
  return job_spec_from_json({{"train_data_path", "train.bin"},
                             {"model", "small"},
                             {"batch_size", 1},
                             {"wire_dtype", "int16"},
                             {"nodes", 4},
                             {"min_nodes", 4},
                             {"shard", "auto"}});
}

double needed(JobSpec spec, const std::string& shard, bool on_host = true) {
  spec.shard = shard;
  return host_memory_needed(spec, spec.min_nodes, on_host);
}

std::string chosen(const JobSpec& spec, std::vector<WorkerMemory> workers) {
  return choose_shard(spec, workers).shard;
}

TEST(ChooseShard, TakesTheFirstThatFitsAndSaysWhyNotTheOneBefore) {
  const JobSpec spec = small_gpt2();
  EXPECT_EQ(chosen(spec, {{.name = "w1"}}), "none") << "no limit is known";
  EXPECT_EQ(chosen(spec, {{"w1", needed(spec, "none")}}), "none");
  const ShardChoice choice = choose_shard(spec, std::vector<WorkerMemory>{{"w1", 64 * kGib}, {"w2", needed(spec, "none") - 1}});
  EXPECT_EQ(choice.shard, "optimizer");
  EXPECT_EQ(choice.why, "with 4 workers none needs 4.21 GiB, and w2 may take 4.21 GiB");
  EXPECT_EQ(chosen(spec, {{"w1", needed(spec, "optimizer") - 1}}), "gradients");
  EXPECT_EQ(chosen(spec, {{"w1", needed(spec, "gradients") - 1}}), "parameters");
}

TEST(ChooseShard, WhereNothingFitsTakesWhatNeedsLeastForThatWorkerIsRefused) {
  const JobSpec spec = small_gpt2();
  const ShardChoice choice = choose_shard(spec, std::vector<WorkerMemory>{{"w1", kGib / 4}});
  EXPECT_EQ(choice.shard, "parameters");
  EXPECT_THAT(choice.why, HasSubstr("and w1 may take 0.25 GiB, which is too little for any"));
  EXPECT_EQ(chosen(spec, {{"w1", kGib / 4}, {"w2", needed(spec, "optimizer")}}), "optimizer") << "w1 is refused whatever it is";
}

TEST(ChooseShard, DividesNothingThatCannotBeDivided) {
  JobSpec spec = small_gpt2();
  spec.sync_every = 4;
  EXPECT_EQ(chosen(spec, {{"w1", kGib / 4}}), "none");
  spec = small_gpt2();
  spec.reduction = "float";
  EXPECT_THAT(choose_shard(spec, std::vector<WorkerMemory>{{"w1", kGib / 4}}).why, HasSubstr("reduction float"));
}

// A worker takes what a reduction among all needs as it begins, though fewer may begin without the others.
TEST(ChooseShard, CountsWhatIsOfAllNodes) {
  const JobSpec all = small_gpt2();
  JobSpec fewer = all;
  fewer.min_nodes = 1;
  for (const bool on_host : {true, false}) EXPECT_GE(needed(fewer, "none", on_host), needed(all, "none", on_host)) << on_host;
  EXPECT_GE(gpu_memory_needed(fewer, 1), gpu_memory_needed(all, 4));
}

TEST(ChooseShard, CountsAGpusMemory) {
  const JobSpec spec = small_gpt2();
  JobSpec whole = spec;
  whole.shard = "none";
  const double needs = gpu_memory_needed(whole, spec.min_nodes);
  EXPECT_EQ(chosen(spec, {{"w1", 0, needs, false}}), "none");
  const ShardChoice choice = choose_shard(spec, std::vector<WorkerMemory>{{"w1", 0, needs - 1, false}});
  EXPECT_NE(choice.shard, "none");
  EXPECT_THAT(choice.why, HasSubstr("and w1 has a GPU of"));
}

TEST(ChooseShard, IsForAnyWorkersTheFirstThatFitsAllWhomAnyFits) {
  std::mt19937 random(7);
  const auto between = [&](double low, double high) { return std::uniform_real_distribution<>(low, high)(random); };
  for (int round = 0; round < 2000; ++round) {
    JobSpec spec = small_gpt2();
    spec.nodes = spec.min_nodes = 1 + round % 8;
    spec.replicas = 1 + round % 3;
    std::vector<WorkerMemory> workers(1 + round % 4);
    for (size_t i = 0; i < workers.size(); ++i)
      workers[i] = {"w" + std::to_string(i), round % 5 == 0 ? 0 : between(0.8, 5) * kGib};
    const ShardChoice choice = choose_shard(spec, workers);
    const auto fits = [&](const WorkerMemory& worker, const std::string& shard) {
      return worker.host == 0 || needed(spec, shard) <= worker.host;
    };
    std::vector<WorkerMemory> able;
    for (const WorkerMemory& worker : workers)
      if (std::ranges::any_of(kShards, [&](const char* shard) { return fits(worker, shard); })) able.push_back(worker);
    const auto fits_all = [&](const std::string& shard) {
      return std::ranges::all_of(able, [&](const WorkerMemory& worker) { return fits(worker, shard); });
    };
    SCOPED_TRACE("round " + std::to_string(round) + ": " + choice.shard + ", " + choice.why);
    EXPECT_FALSE(choice.why.empty());
    if (std::ranges::none_of(kShards, fits_all)) continue;
    EXPECT_TRUE(able.empty() || fits_all(choice.shard));
    for (const char* shard : kShards) {
      if (shard == choice.shard || able.empty()) break;
      EXPECT_FALSE(fits_all(shard)) << shard << " comes before it";
    }
  }
}

}  // namespace
}  // namespace holdfast::rendezvous

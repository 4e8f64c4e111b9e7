// POST /v1/plan: what is given, what the service knows of its own, and what it refuses.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/rendezvous/api/service_harness.h"

namespace holdfast::rendezvous {
namespace {

using testing::HasSubstr;
using testing::StartsWith;
using Json = nlohmann::json;

class PlanTest : public ServiceTest {
 protected:
  Answer plans(const Json& request) { return ask("POST", "/v1/plan", request); }
  // j1, of spec(), has done steps of 0.5 s, of which rank 0 waited 0.3 s; its first took longer.
  void train(const Json& more = Json::object()) {
    for (const char* worker : {"w1", "w2"}) arrives(worker);
    Json trained = spec();
    trained.update(more);
    ASSERT_EQ(ask("POST", "/v1/jobs", trained).status(), 201);
    for (const char* worker : {"w1", "w2"}) reports(worker, Phase::kPrepared);
    for (const char* worker : {"w1", "w2"}) reports(worker, Phase::kActive, 1, 0);
    Progress progress = progress_to(6);
    for (StepPoint& point : progress.points) {
      point.step_s = point.step == 1 ? 3 : 0.5;
      point.communication_s = 0.3;
    }
    ask("POST", "/v1/jobs/j1/progress", progress, {}, "worker-token");
  }
  static Json two_nodes() { return {{"nodes", 2}, {"batch_size", 4}}; }
};

TEST_F(PlanTest, IsMadeOfTheNumbersThatAreGiven) {
  const Answer answer = plans({{"spec", two_nodes()}, {"microbatch_s", 0.03}, {"link_mb_s", 118}, {"device_memory_gib", 24}});
  ASSERT_EQ(answer.status(), 200) << answer.response->body;
  const Json plan = answer.json();
  EXPECT_EQ(plan["microbatch_s"], 0.03);
  EXPECT_EQ(plan["device_source"], "given");
  EXPECT_EQ(plan["link_bytes_per_s"], 118e6);
  EXPECT_EQ(plan["link_known"], true);
  EXPECT_EQ(plan["device_memory_bytes"], 24.0 * (1 << 30));
  EXPECT_EQ(plan["comparison"].size(), 3U);
}

TEST_F(PlanTest, OfAJobThatBeginsWithAnothersWeightsIsOfItsSizes) {
  train({{"n_layer", 3}, {"tied_head", "off"}});
  const auto link_bytes = [&](const Json& more) {
    Json asked = two_nodes();
    asked.update(more);
    return plans({{"spec", asked}, {"microbatch_s", 0.03}, {"device_memory_gib", 24}}).json()["comparison"].dump();
  };
  const Json its_sizes = {{"n_layer", 3}, {"tied_head", "off"}};
  EXPECT_EQ(link_bytes({{"init_from", "job:j1"}}), link_bytes(its_sizes));
  EXPECT_NE(link_bytes({{"init_from", "job:j1"}}), link_bytes(Json::object()));
}

TEST_F(PlanTest, SaysWhenTheLinkIsTakenByItsName) {
  const Json plan = plans({{"spec", two_nodes()}, {"device_tokens_per_s", 81920}}).json();
  EXPECT_EQ(plan["microbatch_s"], 4 * 512 / 81920.0);
  EXPECT_EQ(plan["link_known"], false);
  EXPECT_THAT(plan["link_source"].get<std::string>(), StartsWith("1 Gbit/s"));
}

TEST_F(PlanTest, KnowsTheSpeedOfAJobThatHasTrainedThisModel) {
  train({{"overlap", "off"}, {"wire_dtype", "int16"}});
  const Json plan = plans({{"spec", two_nodes()}}).json();
  EXPECT_NEAR(plan["microbatch_s"].get<double>(), 0.1 * 4, 1e-9) << "two microbatches of one sequence in 0.2 s";
  EXPECT_THAT(plan["device_source"].get<std::string>(), HasSubstr("measured by job j1 on 2023-11-14"));
  EXPECT_EQ(plan["link_known"], true);
  EXPECT_NEAR(plan["link_bytes_per_s"].get<double>(), 2 * 30142848 / (0.3 - 34 * 0.0002), 1);
  EXPECT_THAT(plan["link_source"].get<std::string>(), HasSubstr("job j1"));
}

TEST_F(PlanTest, TakesNoLinkFromAJobThatHidItsSyncs) {
  train();
  const Json plan = plans({{"spec", two_nodes()}}).json();
  EXPECT_GT(plan["microbatch_s"].get<double>(), 0);
  EXPECT_EQ(plan["link_known"], false);
}

TEST_F(PlanTest, IsRefusedWithWhatToGiveWhereNoJobTellsTheSpeed) {
  train({{"overlap", "off"}});
  for (const Json& other :
       {Json{{"model", "small"}}, Json{{"recompute", "block"}}, Json{{"dtype", "float32"}}, Json{{"dropout", 0.1}}}) {
    const Answer answer = plans({{"spec", other}});
    EXPECT_EQ(answer.status(), 422) << other;
    EXPECT_EQ(answer.json()["code"], "speed_unknown");
    EXPECT_THAT(answer.json()["detail"].get<std::string>(), HasSubstr("give microbatch_s"));
  }
}

TEST_F(PlanTest, TakesTheSpeedOfAJobWithDropoutForJobsWithDropoutAlone) {
  train({{"overlap", "off"}, {"dropout", 0.1}});
  Json other = two_nodes();
  EXPECT_EQ(plans({{"spec", other}}).status(), 422);
  other["dropout"] = 0.3;
  EXPECT_EQ(plans({{"spec", other}}).status(), 200) << "however much is dropped";
}

TEST_F(PlanTest, DoesNotTakeTheSpeedOfDevicesThatAreNoLongerThere) {
  train({{"overlap", "off"}});
  RegisterRequest gpu;
  gpu.name = "gpu";
  gpu.incarnation = "gpu-1";
  gpu.device = "hip";
  gpu.numerics = "hip gfx1201";
  ask("POST", "/v1/workers", gpu, {}, "worker-token");
  EXPECT_EQ(plans({{"spec", {{"nodes", 2}, {"requires", {{"device", "hip"}}}}}}).status(), 422);
  EXPECT_EQ(plans({{"spec", two_nodes()}}).status(), 200);
}

TEST_F(PlanTest, LeavesNoMoreMemoryThanTheSmallestDeviceHas) {
  for (const auto& [name, gib] : {std::pair{"a", 24}, {"b", 16}}) {
    RegisterRequest gpu;
    gpu.name = name;
    gpu.incarnation = gpu.name + "-1";
    gpu.device = "hip";
    gpu.memory_bytes = int64_t{1073741824} * gib;
    ask("POST", "/v1/workers", gpu, {}, "worker-token");
  }
  const Json plan = plans({{"spec", two_nodes()}, {"microbatch_s", 0.03}}).json();
  EXPECT_EQ(plan["device_memory_bytes"], 16.0 * 1073741824);
  EXPECT_EQ(plan["memory_source"], "the device of b");
}

TEST_F(PlanTest, OnProcessorsLeavesHalfOfTheMemoryToOthers) {
  for (const char* name : {"a", "b"}) {
    RegisterRequest worker;
    worker.name = name;
    worker.incarnation = worker.name + "-1";
    worker.device = "cpu";
    worker.node = "n1";
    worker.memory_bytes = int64_t{1073741824} * 64;
    ask("POST", "/v1/workers", worker, {}, "worker-token");
  }
  const Json plan = plans({{"spec", two_nodes()}, {"microbatch_s", 0.03}}).json();
  EXPECT_EQ(plan["device_memory_bytes"], 16.0 * 1073741824);
  EXPECT_EQ(plan["memory_source"], "half of the 64.0 GiB of node n1, for its 2 workers");
}

TEST_F(PlanTest, NamesWhatIsWrong) {
  const struct {
    Json request;
    const char* says;
  } wrong[] = {
      {Json::array(), "a plan is asked for with an object"},
      {{{"microbatch_s", 1}}, "spec: must be an object with fields of a job spec"},
      {{{"spec", {{"model", "huge"}}}}, "model: \"huge\" is not one of tiny"},
      {{{"spec", Json::object()}, {"speed", 1}}, "speed: no such field; there are spec, keep, microbatch_s"},
      {{{"spec", Json::object()}, {"microbatch_s", 0}}, "microbatch_s: must be a number above 0, at most 1e+09, not 0"},
      {{{"spec", Json::object()}, {"rtt_ms", "fast"}}, "rtt_ms: must be a number from 0, at most 1e+09, not \"fast\""},
      {{{"spec", Json::object()}, {"keep", {"batchsize"}}}, "keep: \"batchsize\" is no field of the job spec"},
      {{{"spec", Json::object()}, {"keep", 1}}, "keep: must be a list of fields"},
      {{{"spec", Json::object()}, {"keep", std::vector<std::string>(1000, "seed")}}, "keep: has 1000 names"},
      {{{"spec", {{"kind", "serve"}}}}, "kind: \"serve\": a plan is of a job that trains"},
      {{{"spec", Json::object()}, {"link_mb_s", 1}, {"link_gbit_s", 1}}, "link_gbit_s: is given together with link_mb_s"},
  };
  for (const auto& [request, says] : wrong) {
    const Answer answer = plans(request);
    EXPECT_EQ(answer.status(), 400) << request;
    EXPECT_THAT(answer.json()["detail"].get<std::string>(), HasSubstr(says));
  }
}

TEST_F(PlanTest, IsForThoseWhoMayRead) {
  EXPECT_EQ(ask("POST", "/v1/plan", {{"spec", two_nodes()}}, {}, "worker-token").status(), 403);
}

}  // namespace
}  // namespace holdfast::rendezvous

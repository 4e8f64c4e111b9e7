// Descriptions of the service and its jobs for programs: ETags, dry runs, labels, the spec's fields, openapi.json, /metrics.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cctype>

#include "rendezvous/api/openapi/openapi.h"
#include "rendezvous/http/etags.h"
#include "tests/rendezvous/api/service_harness.h"

namespace holdfast::rendezvous {
namespace {

using testing::HasSubstr;
using Json = nlohmann::json;

TEST_F(ServiceTest, AJobThatDidNotChangeIsNotSentAgain) {
  begin_training();
  ask("POST", "/v1/jobs/j1/progress", progress_to(3), {}, "worker-token");
  const std::string etag = ask("GET", "/v1/jobs/j1").response->headers.at("ETag");
  clock_.ms += 500;
  const Answer same = ask("GET", "/v1/jobs/j1", nullptr, {{"if-none-match", "W/\"other\", " + etag}});
  EXPECT_EQ(same.status(), 304);
  EXPECT_EQ(same.response->body, "");
  ask("POST", "/v1/jobs/j1/progress", progress_to(4, 4), {}, "worker-token");
  EXPECT_EQ(ask("GET", "/v1/jobs/j1", nullptr, {{"if-none-match", etag}}).status(), 200);
}

TEST_F(ServiceTest, SteeringAJobThatHasChangedSinceItWasSeenIsRefused) {
  begin_training();
  const std::string seen = ask("GET", "/v1/jobs/j1").response->headers.at("ETag");
  ask("POST", "/v1/jobs/j1/progress", progress_to(3), {}, "worker-token");
  const Answer scaled = ask("POST", "/v1/jobs/j1/scale", {{"nodes", 1}}, {{"if-match", seen}});
  EXPECT_EQ(scaled.status(), 202) << "steps do not count: " << scaled.response->body;
  const Answer late = ask("POST", "/v1/jobs/j1/stop", nullptr, {{"if-match", seen}});
  EXPECT_EQ(late.status(), 412);
  EXPECT_EQ(late.json()["code"], "changed_meanwhile");
  EXPECT_EQ(show()["intent"], "run");
  EXPECT_EQ(ask("POST", "/v1/jobs/j1/stop", nullptr, {{"if-match", scaled.response->headers.at("ETag")}}).status(), 202);
}

TEST(Etags, ListsAndStars) {
  EXPECT_TRUE(none_match("\"a.b\"", "\"a.b\""));
  EXPECT_TRUE(none_match("*", "\"a.b\""));
  EXPECT_TRUE(none_match("\"x\", W/\"a.b\"", "\"a.b\""));
  EXPECT_FALSE(none_match("\"a.c\"", "\"a.b\""));
  EXPECT_FALSE(none_match("a.b", "\"a.b\""));
  EXPECT_FALSE(none_match("\"a.b", "\"a.b\""));
  EXPECT_TRUE(match_for_steering("\"a.c\"", "\"a.b\""));
  EXPECT_FALSE(match_for_steering("\"b.b\"", "\"a.b\""));
}

TEST_F(ServiceTest, ADryRunDescribesTheJobAndMakesNone) {
  Json wanted = spec();
  wanted["checkpoint_every"] = 0;
  const Answer dry = ask("POST", "/v1/jobs?dry_run=1", wanted, {{"idempotency-key", "k"}});
  ASSERT_EQ(dry.status(), 200) << dry.response->body;
  EXPECT_EQ(dry.json()["spec"]["n_layer"], 6);
  EXPECT_EQ(dry.json()["would"], "wait: it needs 1 worker, and 0 of 0 are free");
  EXPECT_EQ(dry.json()["warnings"].size(), 2U) << dry.response->body;
  EXPECT_TRUE(ask("GET", "/v1/jobs").json()["jobs"].empty());
  wanted["total_steps"] = -1;
  EXPECT_EQ(ask("POST", "/v1/jobs?dry_run=1", wanted).json()["errors"][0]["field"], "total_steps");
  wanted["total_steps"] = 10;
  EXPECT_EQ(ask("POST", "/v1/jobs", wanted, {{"idempotency-key", "k"}}).status(), 201) << "the key is still free";
  wanted["resume_from"] = "job:j9";
  EXPECT_GE(ask_until_answered("POST", "/v1/jobs?dry_run=1", wanted.dump()).status(), 400);
}

TEST_F(ServiceTest, AnEncryptedRingIsWarnedOfWhereItsKeysTravelInPlainBytes) {
  Json wanted = spec();
  wanted["ring_tls"] = "on";
  EXPECT_THAT(ask("POST", "/v1/jobs", wanted).json()["warnings"].dump(), testing::HasSubstr("--tls_cert and --tls_key"));
  wanted["ring_tls"] = "off";
  EXPECT_TRUE(ask("POST", "/v1/jobs", wanted).json()["warnings"].empty());
}

TEST_F(ServiceTest, JobsAreFoundByLabel) {
  Json labelled = spec("a");
  labelled["labels"] = {{"team", "red"}};
  ask("POST", "/v1/jobs", labelled);
  ask("POST", "/v1/jobs", spec("b"));
  const auto found = [&](const std::string& label) { return ask("GET", "/v1/jobs?label=" + label).json()["jobs"].size(); };
  EXPECT_EQ(found("team=red"), 1U);
  EXPECT_EQ(found("team"), 1U);
  EXPECT_EQ(found("team=blue"), 0U);
  EXPECT_EQ(ask("GET", "/v1/jobs?label=team").json()["jobs"][0]["labels"]["team"], "red");
}

TEST_F(ServiceTest, TheSpecsFieldsAreListed) {
  const Json fields = ask("GET", "/v1/job_spec").json()["fields"];
  std::map<std::string, Json> by_name;
  for (const Json& field : fields) by_name[field["name"]] = field;
  EXPECT_EQ(by_name["dtype"]["choices"], Json({"float32", "bfloat16", "float16"}));
  EXPECT_EQ(by_name["batch_size"]["min"], 1);
  EXPECT_EQ(by_name["learning_rate"]["above_min"], true);
  EXPECT_EQ(by_name["min_lr"]["default_is_a_value"], false);
}

// Compares both ways: each route is described, with the roles that may use it, and nothing else is described.
TEST_F(ServiceTest, TheDescriptionHasEachRouteAndItsRoles) {
  const Json described = Json::parse(openapi_document());
  std::map<std::string, std::vector<std::string>> from_document, from_routes;
  for (const auto& path : described["paths"].items()) {
    for (const auto& method : path.value().items()) {
      std::string upper = method.key();
      for (char& c : upper) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
      std::string shape;  // the path without the names of arguments
      bool named = false;
      for (const char c : path.key()) {
        named = named && c != '}';
        if (!named) shape += c;
        named = named || c == '{';
      }
      from_document[upper + " " + shape] = method.value()["x-roles"].get<std::vector<std::string>>();
    }
  }
  for (const Service::RouteSummary& route : Service::routes()) from_routes[route.method + " " + route.path] = route.roles;
  EXPECT_EQ(from_document, from_routes);
  EXPECT_EQ(ask("GET", "/openapi.json", nullptr, {}, "worker-token").json(), described);
}

TEST_F(ServiceTest, PrometheusMetricsDescribeJobsWorkersAndTheService) {
  begin_training();
  ask("POST", "/v1/jobs/j1/progress", progress_to(3), {}, "worker-token");
  const Answer answer = ask("GET", "/metrics");
  // The counter is there from the start: for Prometheus a counter that appears with 1 has not increased.
  EXPECT_THAT(answer.response->body, HasSubstr("holdfast_events_total{kind=\"checkpoint_failed\"} 0\n"));
  ASSERT_EQ(answer.status(), 200);
  EXPECT_THAT(answer.response->content_type, testing::StartsWith("text/plain; version=0.0.4"));
  const std::string& text = answer.response->body;
  for (const char* line :
       {"holdfast_jobs{state=\"running\"} 1", "holdfast_workers{state=\"alive\"} 2",
        "holdfast_job_step{job=\"j1\",name=\"run\"} 3", "holdfast_job_loss{job=\"j1\",name=\"run\"} 3",
        "holdfast_job_world_size{job=\"j1\",name=\"run\"} 2", "holdfast_events_total{kind=\"generation_formed\"} 1",
        "# TYPE holdfast_job_restarts_total counter"}) {
    EXPECT_THAT(text, HasSubstr(std::string(line) + "\n"));
  }
  EXPECT_THAT(text, testing::Not(HasSubstr("secret")));
}

TEST_F(ServiceTest, NamesCannotBreakTheMetricsText) {
  ask("POST", "/v1/jobs", spec("a\"b\\c"));
  EXPECT_THAT(ask("GET", "/metrics").response->body, HasSubstr(R"(holdfast_job_step{job="j1",name="a\"b\\c"} 0)"));
}

}  // namespace
}  // namespace holdfast::rendezvous

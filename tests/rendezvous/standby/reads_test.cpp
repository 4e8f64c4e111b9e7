// A service that leads, and beside it what one that stands by answers from the same PostgreSQL database.
#include "rendezvous/standby/reads.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <functional>
#include <future>
#include <regex>
#include <set>

#include "rendezvous/store/postgresql/reading.h"
#include "tests/rendezvous/api/service_harness.h"
#include "tests/rendezvous/store/engines.h"
#include "tests/rendezvous/store/postgresql_server.h"

namespace holdfast::rendezvous {
namespace {

using Json = nlohmann::json;
using testing::HasSubstr;

class StandbyReadsTest : public ServiceTest {
 protected:
  StandbyReadsTest() {
    service_.reset();
    term_ = 1;
    start(database_.open());
    standby_ = std::make_unique<StandbyReads>(ReadsOptions{"s2", "admin-token", "worker-token"}, clock_,
                                              [this] { return open_postgresql_reading(database_.address(), "s2"); });
  }
  ~StandbyReadsTest() override {
    standby_.reset();
    service_.reset();
    watched_.reset();
  }

  static HttpRequest request(const std::string& method, const std::string& path, const std::string& token = "admin-token") {
    HttpRequest asked;
    asked.method = method;
    asked.path = path;
    if (!token.empty()) asked.headers["authorization"] = "Bearer " + token;
    return asked;
  }
  HttpResponse read(const HttpRequest& asked) {
    auto admission = standby_->admit(asked);
    if (!admission) {
      ADD_FAILURE() << asked.path << " is left to the leader";
      return {};
    }
    auto answer = std::make_shared<std::promise<HttpResponse>>();
    auto future = answer->get_future();
    admission->handler(asked, [answer](HttpResponse response) { answer->set_value(std::move(response)); });
    if (future.wait_for(std::chrono::seconds(20)) == std::future_status::ready) return future.get();
    ADD_FAILURE() << asked.path << " is not answered";
    return {};
  }
  HttpResponse read(const std::string& path, const std::string& token = "admin-token") {
    return read(request("GET", path, token));
  }
  Json read_json(const std::string& path) { return Json::parse(read(path).body); }
  std::string in_database(const std::string& sql) { return PostgresqlServer::shared().query(database_.address(), sql); }

  EngineDatabase database_{Engine::kPostgresql};
  std::unique_ptr<StandbyReads> standby_;
};

// Without what the service that leads has in its memory alone.
Json without_live(Json json) {
  static const std::set<std::string> kLive = {"tokens_per_second", "eta_s", "age_s",       "reason",    "waits_for", "phase",
                                              "step_now",          "load",  "last_seen_s", "running_s", "stage"};
  if (json.is_array()) {
    for (Json& item : json) item = without_live(item);
  } else if (json.is_object()) {
    for (const std::string& name : kLive) json.erase(name);
    if (json.contains("owned_bytes") || json.contains("incarnation")) {  // a worker
      json.erase("step");
      json.erase("generation");
    }
    for (auto& [name, item] : json.items()) item = without_live(item);
  }
  return json;
}

TEST_F(StandbyReadsTest, AnswersAsTheLeaderDoes) {
  begin_training();
  ASSERT_EQ(ask("POST", "/v1/jobs/j1/progress", progress_to(3), {}, "worker-token").status(), 204);
  ASSERT_EQ(ask("POST", "/v1/jobs/j1/checkpoints", record_of(2), {}, "worker-token").status(), 201);
  for (const char* path :
       {"/v1/jobs", "/v1/jobs/j1", "/v1/jobs/j1/events", "/v1/jobs/j1/logs", "/v1/jobs/j1/metrics", "/v1/jobs/j1/checkpoints",
        "/v1/jobs/j1/ledger", "/v1/events", "/v1/nodes", "/v1/whoami", "/v1/job_spec"}) {
    EXPECT_EQ(without_live(read_json(path)), without_live(ask("GET", path).json())) << path;
  }
  const Json worker = read_json("/v1/nodes")["nodes"][0];
  EXPECT_TRUE(worker["last_seen_s"].is_null());
  EXPECT_TRUE(worker["phase"].is_null());
  EXPECT_EQ(read_json("/v1/jobs/j1")["workers"][0]["phase"], "unknown");
  EXPECT_EQ(read("/v1/jobs/j2").status, 404);
}

TEST_F(StandbyReadsTest, SaysHowOldItsAnswersAre) {
  ASSERT_EQ(ask("POST", "/v1/jobs", spec()).status(), 201);
  const HttpResponse first = read("/v1/jobs/j1");
  EXPECT_EQ(first.headers.at("Holdfast-Term"), "1");
  EXPECT_EQ(first.headers.at("Holdfast-As-Of"), "2023-11-14T22:13:21.000Z");
  clock_.ms += 400;
  EXPECT_EQ(read("/v1/jobs/j1").headers.at("Holdfast-As-Of"), "2023-11-14T22:13:21.400Z") << "nothing has changed since";
  ASSERT_EQ(ask("POST", "/v1/jobs/j1/stop").status(), 202);
  clock_.ms += 100;
  const HttpResponse old = read("/v1/jobs/j1");
  EXPECT_EQ(Json::parse(old.body)["state"], "queued");
  EXPECT_EQ(old.headers.at("Holdfast-As-Of"), "2023-11-14T22:13:21.400Z");
  clock_.ms += 1000;
  const HttpResponse fresh = read("/v1/jobs/j1");
  EXPECT_EQ(Json::parse(fresh.body)["state"], "cancelled");
  EXPECT_EQ(fresh.headers.at("Holdfast-As-Of"), "2023-11-14T22:13:22.500Z");
}

TEST_F(StandbyReadsTest, WritesNothing) {
  begin_training();
  const std::string before = in_database("SELECT commits FROM leadership");
  for (int i = 0; i < 3; ++i, clock_.ms += 120'000) {
    for (const char* path : {"/v1/jobs", "/v1/nodes", "/v1/whoami", "/v1/events"}) EXPECT_EQ(read(path).status, 200) << path;
  }
  EXPECT_EQ(in_database("SELECT commits FROM leadership"), before);
  EXPECT_EQ(in_database("SELECT count(*) FROM pg_stat_activity WHERE application_name = 'holdfast s2 reads' AND "
                        "state <> 'idle'"),
            "0\n")
      << "no transaction stays open";
}

TEST_F(StandbyReadsTest, LeavesTheRestToTheLeader) {
  for (const auto& [method, path] : std::vector<std::pair<std::string, std::string>>{{"POST", "/v1/jobs"},
                                                                                     {"POST", "/v1/jobs/j1/stop"},
                                                                                     {"GET", "/v1/webhooks"},
                                                                                     {"GET", "/v1/jobs/j1/objects"},
                                                                                     {"GET", "/v1/jobs/j1/profile"},
                                                                                     {"GET", "/v1/workers/w1/directive"},
                                                                                     {"GET", "/readyz"},
                                                                                     {"GET", "/v1/nothing"}}) {
    EXPECT_FALSE(standby_->admit(request(method, path))) << method << " " << path;
  }
  HttpRequest follow = request("GET", "/v1/events");
  follow.query["follow"] = "1";
  EXPECT_FALSE(standby_->admit(follow));
}

TEST_F(StandbyReadsTest, TokensAreThoseOfTheDatabase) {
  EXPECT_EQ(read("/v1/jobs", "").status, 401);
  EXPECT_EQ(read("/v1/jobs", "worker-token").status, 403);
  EXPECT_EQ(read("/", "").status, 200) << "the page needs none";
  const Json made = ask("POST", "/v1/tokens", {{"name", "ada"}, {"role", "read"}}).json();
  const std::string token = made["token"];
  clock_.ms += 1000;
  EXPECT_EQ(read("/v1/jobs", token).status, 200);
  ASSERT_EQ(ask("DELETE", "/v1/tokens/" + made["id"].get<std::string>()).status(), 204);
  clock_.ms += 1000;
  EXPECT_EQ(read("/v1/jobs", token).status, 401);
}

TEST_F(StandbyReadsTest, WhoHasHeardOfALaterTermIsSentAway) {
  HttpRequest asked = request("GET", "/v1/jobs");
  asked.headers["holdfast-term"] = "2";
  const HttpResponse answer = read(asked);
  EXPECT_EQ(answer.status, 503);
  EXPECT_THAT(answer.body, HasSubstr("not_leader"));
  in_database("UPDATE leadership SET term = 2");
  EXPECT_EQ(read(asked).status, 200) << "another term is loaded at once";
}

TEST_F(StandbyReadsTest, AConnectionThatIsLostIsMadeAnew) {
  ASSERT_EQ(read("/v1/jobs").status, 200);
  in_database("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'holdfast s2 reads'");
  const HttpResponse lost = read("/v1/jobs");
  EXPECT_EQ(lost.status, 503);
  EXPECT_THAT(lost.body, HasSubstr("cannot read the database"));
  EXPECT_EQ(read("/v1/jobs").status, 200);
}

TEST_F(StandbyReadsTest, TheDocumentNamesItsRoutes) {
  std::vector<std::string> documented;
  const Json paths = read_json("/openapi.json")["paths"];
  for (const auto& [path, methods] : paths.items()) {
    if (methods.contains("get") && methods["get"].value("x-standby", false))
      documented.push_back("GET " + std::regex_replace(path, std::regex("\\{[^}]*\\}"), "{}"));
  }
  EXPECT_THAT(StandbyReads::routes(), testing::UnorderedElementsAreArray(documented));
}

}  // namespace
}  // namespace holdfast::rendezvous

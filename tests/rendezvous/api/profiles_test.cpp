// Profiles over the API: the order in the directive, parts, the trace; faults in the middle; a service that restarts.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/rendezvous/api/service_harness.h"
#include "tests/rendezvous/profile/parts.h"

namespace holdfast::rendezvous {
namespace {

using testing::Contains;
using testing::HasSubstr;
using Json = nlohmann::json;

class ProfilesTest : public ServiceTest {
 protected:
  std::string begin(int64_t steps = 2) {
    const Answer answer = ask("POST", "/v1/jobs/j1/profile", {{"steps", steps}});
    EXPECT_EQ(answer.status(), 202) << answer.response->body;
    return answer.json()["id"];
  }
  Json profile() { return ask("GET", "/v1/jobs/j1/profile").json(); }
  Json order_of(const std::string& worker) {
    return ask("GET", "/v1/workers/" + worker + "/directive?incarnation=" + worker + "-1").json().value("profile", Json());
  }
  Answer brings(const std::string& worker, const std::string& id, int64_t first, int64_t last) {
    PartMaker maker(worker);
    for (int64_t step = first; step <= last; ++step) maker.step(step, step * 100);
    maker.part.profile = id;
    return ask("POST", "/v1/jobs/j1/profile/parts", Json(maker.part), {}, "worker-token");
  }
  Json wait_for_end() {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    Json shown = profile();
    while (shown["state"] == "merging" && std::chrono::steady_clock::now() < deadline) shown = profile();
    return shown;
  }
};

TEST_F(ProfilesTest, MembersAreOrderedToRecordAndTheirPartsBecomeATrace) {
  begin_training();
  EXPECT_TRUE(order_of("w1").is_null());
  const std::string id = begin();
  const Json order = order_of("w1");
  EXPECT_EQ(order["id"], id);
  EXPECT_EQ(order["steps"], 2);
  EXPECT_EQ(order, order_of("w2"));
  const int64_t first = order["from_step"];
  EXPECT_EQ(brings("w1", id, first, first + 1).status(), 204);
  EXPECT_EQ(profile()["ranks"][0]["part"], "here");
  EXPECT_EQ(profile()["ranks"][1]["part"], "awaited");
  EXPECT_EQ(ask("GET", "/v1/jobs/j1/profile/trace").status(), 409);
  EXPECT_EQ(brings("w2", id, first, first + 1).status(), 204);
  const Json done = wait_for_end();
  EXPECT_EQ(done["state"], "done") << done;
  EXPECT_EQ(done["result"]["steps"], 2);
  EXPECT_EQ(done["result"]["costs"][0]["name"], "matmul");
  EXPECT_NEAR(done["result"]["step_s"].get<double>(), 100e-6, 1e-9);
  EXPECT_TRUE(order_of("w1").is_null());
  const Answer trace = ask_until_answered("GET", "/v1/jobs/j1/profile/trace");
  EXPECT_EQ(trace.status(), 200);
  EXPECT_GT(trace.json()["traceEvents"].size(), 10U);
  EXPECT_EQ(ask_until_answered("GET", "/v1/jobs/j1/profile/trace?id=" + id).status(), 200);
  EXPECT_EQ(ask("GET", "/v1/jobs/j1/profile/trace?id=p0-9").json()["code"], "stale_profile");
  EXPECT_THAT(event_kinds(), Contains("profile_done"));
}

TEST_F(ProfilesTest, ARankThatIsLostIsNamedAndTheOthersAreShown) {
  begin_training();
  const std::string id = begin(20);
  WorkerLost lost;
  lost.incarnation = "w2-1";
  lost.reason = "killed by signal 9 (SIGKILL)";
  ask("POST", "/v1/workers/lost", lost, {}, "worker-token");
  EXPECT_EQ(brings("w1", id, 5, 9).status(), 204);
  const Json done = wait_for_end();
  EXPECT_EQ(done["state"], "done") << done;
  EXPECT_EQ(done["result"]["last_step"], 9);
  EXPECT_EQ(done["ranks"][1]["part"], "missing");
  EXPECT_EQ(done["ranks"][1]["reason"], "w2 was lost while it recorded");
  EXPECT_EQ(brings("w2", id, 5, 9).status(), 409) << "its life is over";
}

TEST_F(ProfilesTest, ItFailsWithAReasonWhereNobodyBringsAnything) {
  begin_training();
  begin();
  ask("POST", "/v1/jobs/j1/pause");
  passes(100);
  EXPECT_EQ(profile()["state"], "recording");
  passes(ProfileBook::kPatienceMs);
  const Json failed = wait_for_end();
  EXPECT_EQ(failed["state"], "failed");
  EXPECT_THAT(failed["reason"].get<std::string>(), HasSubstr("no whole step in common"));
  EXPECT_EQ(ask("POST", "/v1/jobs/j1/profile").status(), 409) << "it does not train";
}

TEST_F(ProfilesTest, ARestartedServiceSaysThatItHasNone) {
  begin_training();
  const std::string id = begin();
  restart();
  const Answer asked = ask("GET", "/v1/jobs/j1/profile");
  EXPECT_EQ(asked.status(), 404);
  EXPECT_THAT(asked.json()["detail"].get<std::string>(), HasSubstr("none through a restart"));
  const Answer part = brings("w1", id, 5, 6);
  EXPECT_EQ(part.status(), 409);
  EXPECT_EQ(part.json()["code"], "stale_profile");
}

TEST_F(ProfilesTest, RequestsThatMakeNoSenseAreRefused) {
  begin_training();
  for (const Json& body : {Json{{"steps", 0}}, Json{{"steps", 201}}, Json{{"steps", "20"}}, Json{{"step", 20}}, Json::array()})
    EXPECT_EQ(ask("POST", "/v1/jobs/j1/profile", body).status(), 400) << body;
  EXPECT_EQ(ask("POST", "/v1/jobs/j9/profile").status(), 404);
  const std::string id = begin();
  EXPECT_EQ(ask("POST", "/v1/jobs/j1/profile").json()["code"], "profile_under_way");
  Json part = PartMaker("w1").step(5, 0).part;
  part["profile"] = id;
  const auto refused = [&](const char* field, const Json& value) {
    Json bad = part;
    bad[Json::json_pointer(field)] = value;
    const Answer answer = ask("POST", "/v1/jobs/j1/profile/parts", bad, {}, "worker-token");
    return answer.status() == 400 ? answer.json()["detail"].get<std::string>() : "status " + std::to_string(answer.status());
  };
  EXPECT_THAT(refused("/pieces", 65), HasSubstr("pieces: is 65, expected 1 to 64"));
  EXPECT_THAT(refused("/tracks/0/spans/0", 99), HasSubstr("tracks[0].spans: is 99, expected 0 to"));
  EXPECT_THAT(refused("/tracks/0/spans/3", -1), HasSubstr("is -1, expected 0 to"));
  EXPECT_THAT(refused("/tracks/0/spans", Json{1, 2, 3}), HasSubstr("has 3 numbers, expected 5 a span"));
  EXPECT_THAT(refused("/tracks/0/thread", ""), HasSubstr("has 0 bytes"));
  EXPECT_THAT(refused("/names/0", std::string(65, 'x')), HasSubstr("has 65 bytes, expected 1 to 64"));
}

}  // namespace
}  // namespace holdfast::rendezvous

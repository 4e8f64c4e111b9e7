// Tokens with roles, events that name the token, rate limits, and ids of requests.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <iterator>

#include "rendezvous/http/token_buckets.h"
#include "tests/rendezvous/api/service_harness.h"

namespace holdfast::rendezvous {
namespace {

using testing::HasSubstr;
using testing::StartsWith;
using Json = nlohmann::json;

class AccessTest : public ServiceTest {
 protected:
  // Makes a token and returns its secret.
  std::string token_of(const std::string& role, const Json& more = Json::object()) {
    Json body = {{"name", "ada"}, {"role", role}};
    body.update(more);
    const Answer made = ask("POST", "/v1/tokens", body);
    EXPECT_EQ(made.status(), 201) << made.response->body;
    return made.status() == 201 ? made.json()["token"].get<std::string>() : "";
  }
  int status(const std::string& method, const std::string& target, const std::string& token,
             const Json& body = Json::object()) {
    return ask(method, target, body, {}, token).status();
  }
  std::vector<Json> events() { return ask("GET", "/v1/events?limit=1000").json()["events"].get<std::vector<Json>>(); }
};

TEST_F(AccessTest, EachRoleMayUseItsRoutesAndNoOthers) {
  arrives("w1");
  const std::string read = token_of("read"), submit = token_of("submit"), admin = token_of("admin"),
                    worker = token_of("worker");
  ASSERT_EQ(status("POST", "/v1/jobs", submit, spec()), 201);
  struct Case {
    const char *method, *target;
    std::vector<std::string> may;
  };
  const std::vector<Case> cases = {{"GET", "/v1/jobs", {read, submit, admin}},
                                   {"GET", "/v1/jobs/j1/logs", {read, submit, admin}},
                                   {"GET", "/metrics", {read, submit, admin}},
                                   {"POST", "/v1/jobs/j1/pause", {submit, admin}},
                                   {"POST", "/v1/nodes/w1/drain", {admin}},
                                   {"GET", "/v1/tokens", {admin}},
                                   {"GET", "/v1/webhooks", {admin}},
                                   {"POST", "/v1/workers/lost", {worker, admin}},
                                   {"GET", "/v1/whoami", {read, submit, admin, worker}}};
  for (const auto& [method, target, may] : cases) {
    for (const std::string& token : {read, submit, admin, worker}) {
      const bool allowed = std::ranges::find(may, token) != may.end();
      EXPECT_EQ(status(method, target, token) != 403, allowed) << method << " " << target << " with " << token;
    }
  }
  const Answer refused = ask("POST", "/v1/jobs", spec(), {}, read);
  EXPECT_EQ(refused.json()["detail"], "POST /v1/jobs needs a token of role submit or admin; this one (ada) has the role read");
}

TEST_F(AccessTest, ATokenIsShownOnceAndIsThereAfterARestart) {
  const Answer made = ask("POST", "/v1/tokens", {{"name", "ada"}, {"role", "read"}});
  ASSERT_EQ(made.status(), 201);
  EXPECT_EQ(made.response->headers.at("Location"), "/v1/tokens/t1");
  const std::string secret = made.json()["token"];
  EXPECT_THAT(secret, StartsWith("hf_"));
  EXPECT_THAT(ask("GET", "/v1/tokens").response->body, testing::Not(HasSubstr(secret)));
  restart();
  EXPECT_EQ(status("GET", "/v1/jobs", secret), 200);
  EXPECT_EQ(ask("DELETE", "/v1/tokens/t1").status(), 204);
  EXPECT_EQ(status("GET", "/v1/jobs", secret), 401);
  restart();
  EXPECT_EQ(status("GET", "/v1/jobs", secret), 401);
  EXPECT_EQ(ask("POST", "/v1/tokens", {{"name", "eve"}, {"role", "read"}}).json()["id"], "t2") << "no id is given twice";
  for (const Json& event : events()) EXPECT_THAT(event.dump(), testing::Not(HasSubstr(secret)));
}

TEST_F(AccessTest, TheDatabaseHoldsNoSecret) {
  const std::string secret = token_of("admin");
  std::string all;
  for (const char* name : {"/holdfast.sqlite", "/holdfast.sqlite-wal"}) {
    std::ifstream file(folder_ + name, std::ios::binary);
    all.append(std::istreambuf_iterator<char>(file), {});
  }
  EXPECT_THAT(all, HasSubstr("token_created")) << "it was looked into the right place";
  EXPECT_EQ(all.find(secret), std::string::npos);
}

TEST_F(AccessTest, ATokenExpires) {
  const std::string secret = token_of("read", {{"expires_in_s", 60}});
  clock_.ms += 59'000;
  EXPECT_EQ(status("GET", "/v1/jobs", secret), 200);
  clock_.ms += 1'000;
  EXPECT_EQ(status("GET", "/v1/jobs", secret), 401);
}

TEST_F(AccessTest, ARevokedTokenFollowsNothingAnyMore) {
  ask("POST", "/v1/jobs", spec());
  const std::string secret = token_of("read");
  const Answer followed = ask("GET", "/v1/jobs/j1/events?follow=1", nullptr, {}, secret);
  const auto stream = std::make_shared<CollectingStream>();
  followed.response->on_stream(stream);
  service_->turn();
  EXPECT_FALSE(stream->closed);
  ask("DELETE", "/v1/tokens/t1");
  EXPECT_TRUE(stream->closed);
}

TEST_F(AccessTest, AStreamEndsWithItsTokenHoweverThatEnds) {
  ask("POST", "/v1/jobs", spec());
  const Json made = ask("POST", "/v1/tokens", {{"name", "brief"}, {"role", "read"}, {"expires_in_s", 60}}).json();
  const std::string secret = made["token"];
  const auto follow = [&](const std::string& token) {
    const Answer followed = ask("GET", "/v1/jobs/j1/events?follow=1", nullptr, {}, token);
    const auto stream = std::make_shared<CollectingStream>();
    followed.response->on_stream(stream);
    return stream;
  };
  const auto brief = follow(secret), lasting = follow("admin-token");
  service_->turn();
  clock_.ms += 59'000;
  service_->turn();
  EXPECT_FALSE(brief->closed);
  clock_.ms += 2000;
  service_->turn();
  EXPECT_TRUE(brief->closed) << "it has expired";
  EXPECT_FALSE(lasting->closed);
  const std::string another = token_of("read");
  const auto begun_late = follow(another);  // it becomes a follower only in the next turn
  ask("DELETE", "/v1/tokens/t2");
  clock_.ms += 2000;
  service_->turn();
  EXPECT_TRUE(begun_late->closed);
}

TEST_F(AccessTest, TokensThatExpiredADayAgoAreForgotten) {
  ask("POST", "/v1/tokens", {{"name", "brief"}, {"role", "read"}, {"expires_in_s", 60}});
  const auto listed = [&] {
    const Json answer = ask("GET", "/v1/tokens").json();
    return std::ranges::count_if(answer["tokens"], [](const Json& token) { return token["name"] == "brief"; });
  };
  clock_.ms += 3600'000;
  service_->turn();
  EXPECT_EQ(listed(), 1) << "people may look up why it is no longer good";
  clock_.ms += 24 * 3600'000;
  service_->turn();
  EXPECT_EQ(listed(), 0);
}

TEST_F(AccessTest, ABadRequestForATokenNamesEachField) {
  const Answer bad = ask("POST", "/v1/tokens", {{"name", ""}, {"role", "king"}, {"expires_in_s", 0}, {"x", 1}});
  EXPECT_EQ(bad.status(), 400);
  std::vector<std::string> fields;
  const Json problem = bad.json();
  for (const Json& error : problem["errors"]) fields.push_back(error["field"]);
  EXPECT_THAT(fields, testing::UnorderedElementsAre("name", "role", "expires_in_s", "x"));
  EXPECT_EQ(ask("POST", "/v1/tokens", Json::object()).status(), 400);
  EXPECT_EQ(ask("POST", "/v1/tokens", Json::array()).status(), 400);
  EXPECT_EQ(ask("DELETE", "/v1/tokens/t9").status(), 404);
  EXPECT_EQ(ask("DELETE", "/v1/tokens/admin.token").status(), 409);
}

TEST_F(AccessTest, EventsNameTheTokenOfTheRequest) {
  const std::string secret = token_of("submit");
  ask("POST", "/v1/jobs", spec(), {}, secret);
  ask("POST", "/v1/jobs/j1/pause", Json::object(), {}, secret);
  arrives("w1");
  std::map<std::string, Json> actor;
  for (const Json& event : events()) actor[event["kind"]] = event["actor"];
  EXPECT_EQ(actor["token_created"], "admin.token");
  EXPECT_EQ(actor["job_submitted"], "ada");
  EXPECT_EQ(actor["pause_asked"], "ada");
  EXPECT_EQ(actor["worker_registered"], nullptr);
}

TEST_F(AccessTest, TooManyRequestsOfATokenAreRefusedForAWhile) {
  const std::string secret = token_of("read");
  int refused = 0;
  for (int i = 0; i < 1100; ++i) refused += status("GET", "/v1/whoami", secret) == 429 ? 1 : 0;
  EXPECT_EQ(refused, 100) << "500 a second, and twice as many at once";
  EXPECT_EQ(ask("GET", "/v1/whoami", nullptr, {}, secret).response->headers.at("Retry-After"), "1");
  EXPECT_EQ(status("GET", "/v1/whoami", "admin-token"), 200) << "another token is not held back";
  clock_.ms += 1000;
  EXPECT_EQ(status("GET", "/v1/whoami", secret), 200);
  for (int i = 0; i < 1100; ++i) ASSERT_EQ(status("GET", "/v1/whoami", "worker-token"), 200) << "workers have no such limit";
}

TEST_F(AccessTest, WrongTokensFromOneAddressAreSlowedDown) {
  HttpRequest guess;
  guess.method = "GET";
  guess.path = "/v1/jobs";
  guess.headers["authorization"] = "Bearer guess";
  guess.peer = "192.0.2.7";
  std::map<int, int> statuses;
  for (int i = 0; i < 60; ++i) ++statuses[service_->admit(guess).refusal->status];
  EXPECT_EQ(statuses[401], 50);
  EXPECT_EQ(statuses[429], 10);
  guess.headers["authorization"] = "Bearer admin-token";
  EXPECT_FALSE(service_->admit(guess).refusal) << "a valid token is not held back by others' failures";
}

TEST_F(AccessTest, ATokenIsLookedUpOnceAndNotAgainAfterTheBody) {
  HttpRequest request;
  request.method = "POST";
  request.path = "/v1/jobs";
  request.headers["authorization"] = "Bearer " + token_of("submit");
  Admission admission = service_->admit(request);
  ASSERT_FALSE(admission.refusal);
  EXPECT_TRUE(admission.known);
  ASSERT_EQ(status("DELETE", "/v1/tokens/t1", "admin-token"), 204);
  EXPECT_EQ(service_->admit(request).refusal->status, 401) << "the next request is refused";
  request.body = spec().dump();
  Pending answer;
  admission.handler(request, [&](HttpResponse response) { answer.come(std::move(response)); });
  service_->turn();
  EXPECT_EQ(answer.status(), 201);
}

TEST_F(AccessTest, EachAnswerCarriesTheRequestsId) {
  const Answer named = ask("GET", "/v1/jobs/j9", nullptr, {{"x-request-id", "mine-1"}});
  EXPECT_EQ(named.response->headers.at("X-Request-Id"), "mine-1");
  EXPECT_EQ(named.json()["request_id"], "mine-1");
  const Answer one = ask("GET", "/v1/jobs"), two = ask("GET", "/v1/jobs", nullptr, {{"x-request-id", "no good\r\nid"}});
  EXPECT_NE(one.response->headers.at("X-Request-Id"), two.response->headers.at("X-Request-Id"));
  EXPECT_THAT(two.response->headers.at("X-Request-Id"), testing::Not(HasSubstr("no good")));
}

TEST(TokenBuckets, RareCallersAreForgottenSoThatMemoryIsBounded) {
  TokenBuckets limits(1, 2);
  for (int i = 0; i < 100'000; ++i) EXPECT_TRUE(limits.take(fmt::format("a{}", i), i));
  EXPECT_TRUE(limits.take("b", 1'000'000));
  EXPECT_TRUE(limits.take("b", 1'000'000));
  EXPECT_FALSE(limits.take("b", 1'000'000));
  EXPECT_TRUE(limits.take("b", 1'001'000));
}

}  // namespace
}  // namespace holdfast::rendezvous

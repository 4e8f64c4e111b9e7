// `holdfast whoami`, `tokens` and `webhooks`: their requests to the service. A secret is printed once, and alone.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <iostream>
#include <sstream>

#include "tests/ops/cli/fake_jobs.h"

namespace holdfast::ops {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

using Tokens = Jobs;

Json a_token(const std::string& id, const std::string& name) {
  return {{"id", id},
          {"name", name},
          {"role", "submit"},
          {"created_at", "2026-01-02T03:04:05Z"},
          {"expires_at", nullptr},
          {"last_used_at", "2026-01-03T03:04:05Z"}};
}

TEST_F(Tokens, WhoamiSaysWhatTheTokenMayDo) {
  service_.answer("GET /v1/whoami", {{"token", {{"id", "t1"}, {"name", "ci"}, {"role", "submit"}}}});
  EXPECT_EQ(run({"whoami"}).out, "ci (token t1), which may look, submit and steer jobs, at " + service_.url() + "\n");
  EXPECT_EQ(Json::parse(run({"whoami", "--json"}).out)["token"]["role"], "submit");
}

TEST_F(Tokens, AWebhooksSecretCanComeFromTheInput) {
  service_.answer("POST /v1/webhooks", {{"id", "h1"}, {"url", "https://e.org/h"}, {"secret", "quiet"}}, 201);
  std::istringstream input("quiet\nmore\n");
  std::streambuf* const before = std::cin.rdbuf(input.rdbuf());
  const Said said = run({"webhooks", "create", "https://e.org/h", "--secret", "-"});
  std::cin.rdbuf(before);
  EXPECT_EQ(said.exit_code, 0) << said.err;
  EXPECT_EQ(service_.body_of("POST /v1/webhooks")["secret"], "quiet");
}

TEST_F(Tokens, CreatePrintsTheTokenAloneOnStdout) {
  Json made = a_token("t2", "ci");
  made["token"] = "secret-words";
  service_.answer("POST /v1/tokens", made, 201);
  const Said said = run({"tokens", "create", "ci", "--role", "submit", "--expires_in", "30d"});
  EXPECT_EQ(said.exit_code, 0) << said.err;
  EXPECT_EQ(said.out, "secret-words\n");
  EXPECT_THAT(said.err, HasSubstr("holdfast tokens revoke t2"));
  EXPECT_THAT(said.err, Not(HasSubstr("secret-words")));
  EXPECT_EQ(service_.body_of("POST /v1/tokens"), (Json{{"name", "ci"}, {"role", "submit"}, {"expires_in_s", 2592000}}));
}

TEST_F(Tokens, CreateNamesMistakes) {
  EXPECT_THAT(run({"tokens", "create", "ci", "--role", "root"}).err, HasSubstr("root"));
  EXPECT_THAT(run({"tokens", "create", "ci"}).err, HasSubstr("--role is required"));
  EXPECT_THAT(run({"tokens", "create", "ci", "--role", "read", "--expires_in", "soon"}).err,
              HasSubstr("--expires_in soon: expected"));
  EXPECT_TRUE(service_.requests("POST /v1/tokens").empty());
}

TEST_F(Tokens, AreListedAndRevokedByIdOrName) {
  service_.answer("GET /v1/tokens", a_page("tokens", {a_token("t1", "ci"), a_token("t2", "twin"), a_token("t3", "twin")}));
  const std::string table = run({"tokens", "ls"}).out;
  for (const char* part : {"TOKEN", "t1", "ci", "submit", "2026-01-02 03:04:05", "never", "2026-01-03 03:04:05"})
    EXPECT_THAT(table, HasSubstr(part));
  EXPECT_EQ(Json::parse(run({"tokens", "ls", "--json"}).out)["tokens"].size(), 3U);
  service_.answer("DELETE /v1/tokens/t1", Json::object());
  EXPECT_EQ(run({"tokens", "revoke", "ci"}).out, "t1 is revoked: nobody gets in with it any more\n");
  EXPECT_EQ(run({"tokens", "revoke", "t1"}).exit_code, 0);
  EXPECT_EQ(Json::parse(run({"tokens", "revoke", "t1", "--json"}).out)["id"], "t1");
  EXPECT_EQ(service_.requests("DELETE /v1/tokens/t1").size(), 3U);
  EXPECT_THAT(run({"tokens", "revoke", "twin"}).err, HasSubstr("give the id, one of t2, t3"));
  EXPECT_THAT(run({"tokens", "revoke", "nobody"}).err, HasSubstr("`holdfast tokens ls` lists them"));
}

TEST_F(Tokens, WebhooksAreMadeListedAndRemoved) {
  service_.answer("POST /v1/webhooks", {{"id", "h1"}, {"url", "https://e.org/h"}, {"secret", "s3cret"}}, 201);
  Said said = run({"webhooks", "create", "https://e.org/h", "--states", "succeeded,failed"});
  EXPECT_EQ(said.exit_code, 0) << said.err;
  EXPECT_EQ(said.out, "s3cret\n");
  EXPECT_EQ(service_.body_of("POST /v1/webhooks"), (Json{{"url", "https://e.org/h"}, {"states", {"succeeded", "failed"}}}));
  EXPECT_THAT(run({"webhooks", "create", "https://e.org/h", "--states", "done"}).err, HasSubstr("done"));
  service_.answer(
      "GET /v1/webhooks",
      a_page("webhooks", {{{"id", "h1"},
                           {"url", "https://e.org/h"},
                           {"states", {"failed"}},
                           {"failing", true},
                           {"last_delivery", {{"time", "2026-01-02T03:04:05Z"}, {"status", 500}, {"error", "no answer"}}}},
                          {{"id", "h2"}, {"url", "https://e.org/2"}, {"states", Json::array()}, {"last_delivery", nullptr}}}));
  const std::string table = run({"webhooks", "ls"}).out;
  for (const char* part : {"h1", "FAILING, 2026-01-02 03:04:05: no answer", "h2", "all", "none yet"})
    EXPECT_THAT(table, HasSubstr(part));
  service_.answer("DELETE /v1/webhooks/h1", Json::object());
  EXPECT_EQ(run({"webhooks", "rm", "h1"}).out, "h1 is removed: its URL is told nothing more\n");
  EXPECT_EQ(run({"webhooks", "rm", "h9"}).exit_code, 2);
}

}  // namespace
}  // namespace holdfast::ops

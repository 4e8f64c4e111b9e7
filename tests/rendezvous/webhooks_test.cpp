// Webhooks: what is sent, in which order, how often, and that a restart loses none.
#include "rendezvous/webhooks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/rendezvous/http_server_start.h"
#include "tests/rendezvous/service_harness.h"

namespace holdfast::rendezvous {
namespace {

using Json = nlohmann::json;

// A receiver that answers as it is told.
class Receiver {
 public:
  Receiver() {
    server_ = rendezvous::start([this](HttpRequest request, const Reply& reply) {
      HttpResponse response;
      const std::lock_guard lock(mutex_);
      response.status = status_;
      requests_.push_back(std::move(request));
      reply(std::move(response));
    });
  }
  std::string url() const { return url_of(*server_) + "/hook?x=1"; }
  void answer_with(int status) {
    const std::lock_guard lock(mutex_);
    status_ = status;
  }
  std::vector<HttpRequest> requests() {
    const std::lock_guard lock(mutex_);
    return requests_;
  }

 private:
  std::mutex mutex_;
  int status_ = 204;
  std::vector<HttpRequest> requests_;
  std::unique_ptr<HttpServer> server_;
};

class WebhookTest : public ServiceTest {
 protected:
  void turns_until(const std::function<bool()>& done) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (!done() && std::chrono::steady_clock::now() < deadline) {
      service_->turn();
      std::this_thread::yield();
    }
    EXPECT_TRUE(done());
  }
  int64_t waiting() { return ask("GET", "/v1/webhooks").json()["webhooks"][0]["waiting"]; }

  Receiver receiver_;
};

TEST_F(WebhookTest, AChangeOfStateIsToldSigned) {
  const Answer made = ask("POST", "/v1/webhooks", {{"url", receiver_.url()}, {"secret", "0123456789abcdef"}});
  ASSERT_EQ(made.status(), 201) << made.response->body;
  EXPECT_EQ(made.json()["secret"], "0123456789abcdef");
  EXPECT_FALSE(ask("GET", "/v1/webhooks").json()["webhooks"][0].contains("secret"));
  begin_training();
  turns_until([&] { return receiver_.requests().size() == 1; });
  const HttpRequest request = receiver_.requests().at(0);
  EXPECT_EQ(request.path, "/hook");
  EXPECT_EQ(request.query.at("x"), "1");
  const Json body = Json::parse(request.body);
  EXPECT_EQ(body["event"], "job_state_changed");
  EXPECT_EQ(body["from"], "queued");
  EXPECT_EQ(body["to"], "running");
  EXPECT_EQ(body["job"]["id"], "j1");
  const std::string signature = request.headers.at("holdfast-signature");
  const int64_t time = std::stoll(signature.substr(2));
  EXPECT_EQ(signature, webhook_signature("0123456789abcdef", request.body, time));
  EXPECT_NE(signature, webhook_signature("0123456789abcdeg", request.body, time));
  turns_until([&] { return waiting() == 0; });
}

// RFC 4231, test case 2, with our time and dot before the data.
TEST(WebhookSignature, IsAnHmac) {
  EXPECT_EQ(webhook_signature("Jefe", "what do ya want for nothing?", 0).substr(0, 7), "t=0,v1=");
  EXPECT_EQ(webhook_signature("key", "body", 12).size(), std::string("t=12,v1=").size() + 64);
}

TEST_F(WebhookTest, OnlyTheStatesAskedForAreTold) {
  ask("POST", "/v1/webhooks", {{"url", receiver_.url()}, {"states", {"cancelled"}}});
  ask("POST", "/v1/jobs", spec());
  ask("POST", "/v1/jobs/j1/stop");
  turns_until([&] { return receiver_.requests().size() == 1; });
  EXPECT_EQ(Json::parse(receiver_.requests().at(0).body)["to"], "cancelled");
}

TEST_F(WebhookTest, WhatIsNotTakenIsTriedAgainAlsoAfterARestart) {
  receiver_.answer_with(500);
  ask("POST", "/v1/webhooks", {{"url", receiver_.url()}});
  ask("POST", "/v1/jobs", spec());
  ask("POST", "/v1/jobs/j1/stop");
  turns_until([&] { return ask("GET", "/v1/webhooks").json()["webhooks"][0]["failing"] == true; });
  EXPECT_EQ(ask("GET", "/v1/webhooks").json()["webhooks"][0]["last_delivery"]["status"], 500);
  EXPECT_EQ(receiver_.requests().size(), 1U) << "not before its pause is over";
  restart();
  EXPECT_EQ(waiting(), 1);
  receiver_.answer_with(200);
  clock_.ms += 5'000;
  turns_until([&] { return waiting() == 0; });
  EXPECT_EQ(receiver_.requests().size(), 2U);
  EXPECT_EQ(receiver_.requests()[0].body, receiver_.requests()[1].body);
  EXPECT_EQ(receiver_.requests()[0].headers.at("holdfast-delivery"), receiver_.requests()[1].headers.at("holdfast-delivery"));
}

TEST_F(WebhookTest, ARedirectIsNotFollowed) {
  receiver_.answer_with(307);
  ask("POST", "/v1/webhooks", {{"url", receiver_.url()}});
  ask("POST", "/v1/jobs", spec());
  ask("POST", "/v1/jobs/j1/stop");
  turns_until([&] { return ask("GET", "/v1/webhooks").json()["webhooks"][0]["failing"] == true; });
  EXPECT_EQ(receiver_.requests().size(), 1U);
}

TEST_F(WebhookTest, BadOnesAreRefused) {
  for (const Json& bad : std::vector<Json>{{{"url", "ftp://x/"}},
                                           {{"url", "http://"}},
                                           {{"url", "http://me:secret@x/"}},
                                           {{"url", "http://x/ y"}},
                                           {{"url", "http://x/"}, {"secret", "short"}},
                                           {{"url", "http://x/"}, {"states", {"happy"}}},
                                           {{"url", "http://x/"}, {"colour", 1}},
                                           Json::object(),
                                           Json::array()}) {
    EXPECT_EQ(ask("POST", "/v1/webhooks", bad).status(), 400) << bad;
  }
  EXPECT_EQ(ask("DELETE", "/v1/webhooks/w1").status(), 404);
}

TEST(Webhooks, OneAtATimeInOrderAndGivenUpAfterADay) {
  Webhooks hooks({});
  const std::string id = hooks.add({}).id;
  hooks.note_change("running", "first", 0);
  hooks.note_change("paused", "second", 0);
  int64_t now = 0, tries = 0;
  for (bool given_up = false; !given_up && tries < 1000; ++tries) {
    const auto row = hooks.take_due(now);
    if (!row) {
      now += 1000;
      --tries;
      continue;
    }
    EXPECT_EQ(row->body, "first");
    EXPECT_FALSE(hooks.take_due(now)) << "one at a time";
    given_up = hooks.settle(row->id, {now, 0, "refused"}).given_up;
  }
  EXPECT_GT(now, 22 * 3'600'000);
  EXPECT_LT(tries, 40);
  EXPECT_EQ(hooks.take_due(now)->body, "second");
  EXPECT_EQ(hooks.waiting(id), 1);
  hooks.remove(id);
  EXPECT_FALSE(hooks.take_due(now));
}

}  // namespace
}  // namespace holdfast::rendezvous

// Webhooks: their contents, order and repetitions; a restart loses none.
#include "rendezvous/webhooks/book.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/rendezvous/api/service_harness.h"
#include "tests/rendezvous/client/raw_server.h"
#include "tests/rendezvous/http/server_start.h"

namespace holdfast::rendezvous {
namespace {

using Json = nlohmann::json;

// A receiver whose answers the test chooses.
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

TEST_F(WebhookTest, AChangeOfStateIsSentWithASignature) {
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

// In Python: hmac.new(b"0123456789abcdef", b'1700000000.{"event":"job_state_changed"}', "sha256").hexdigest()
TEST(WebhookSignature, EqualsTheSignatureOfAnotherProgram) {
  EXPECT_EQ(webhook_signature("0123456789abcdef", R"({"event":"job_state_changed"})", 1'700'000'000),
            "t=1700000000,v1=e146c05fdf8834572cd741a85545772b0937befce6d22565d1d1fb6b078487fe");
}

TEST_F(WebhookTest, PathsAndQueriesOfReceiversAreNotShown) {
  ask("POST", "/v1/webhooks", {{"url", "https://hooks.example.org:8443/services/T0KEN?key=s3cret"}});
  ask("DELETE", "/v1/webhooks/w1");
  const Json page = ask("GET", "/v1/events?limit=1000").json();
  int told = 0;
  for (const Json& event : page["events"]) {
    const std::string message = event["message"];
    EXPECT_EQ(message.find("T0KEN"), std::string::npos) << message;
    EXPECT_EQ(message.find("s3cret"), std::string::npos) << message;
    told += message.find("https://hooks.example.org:8443") != std::string::npos ? 1 : 0;
  }
  EXPECT_EQ(told, 2) << "when it was made, and when it was removed";
  EXPECT_EQ(webhook_host("http://x?key=1"), "http://x");
  EXPECT_EQ(webhook_host("http://x#key"), "http://x");
  EXPECT_EQ(webhook_host("http://x:1"), "http://x:1");
}

DeliveryOutcome deliver_to(const std::string& url) {
  ClientsAtWork clients;
  WebhookRow hook;
  hook.url = url;
  return deliver(hook, {1, "w1", "{}", 0, 0, 0}, 1000, clients);
}

TEST(Delivery, OnlyTheStatusOfAReceiversAnswerMatters) {
  int status = 500;
  std::string body;
  RawServer receiver([&](RawConnection& connection) {
    connection.read_request();
    connection.answer(status, body);
  });
  body = R"({"title":)" + std::string(300'000, '[') + std::string(300'000, ']') + "}";
  EXPECT_EQ(deliver_to(receiver.url()).status, 500);
  EXPECT_EQ(deliver_to(receiver.url()).error, "it answered 500");
  body = std::string(size_t{8} << 20, 'x');
  EXPECT_EQ(deliver_to(receiver.url()).status, 500);
  status = 200;
  EXPECT_EQ(deliver_to(receiver.url()).status, 200);
  EXPECT_EQ(deliver_to(receiver.url()).error, "");
}

TEST_F(WebhookTest, OnlyTheStatesAskedForAreSent) {
  ask("POST", "/v1/webhooks", {{"url", receiver_.url()}, {"states", {"cancelled"}}});
  ask("POST", "/v1/jobs", spec());
  ask("POST", "/v1/jobs/j1/stop");
  turns_until([&] { return receiver_.requests().size() == 1; });
  EXPECT_EQ(Json::parse(receiver_.requests().at(0).body)["to"], "cancelled");
}

TEST_F(WebhookTest, AFailedDeliveryIsTriedAgainAlsoAfterARestart) {
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

TEST_F(WebhookTest, InvalidWebhooksAreRefused) {
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

TEST(Webhooks, DeliveriesGoOneAtATimeInOrderAndAreGivenUpAfterADay) {
  WebhookBook hooks({});
  const std::string id = hooks.add({}).id;
  hooks.note_change("running", "first", 0);
  hooks.note_change("paused", "as old", 0);
  hooks.note_change("running", "second", 12 * 3'600'000);
  WebhookBook::Recorded last;
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
    last = hooks.record(row->id, {now, 0, "refused"});
    EXPECT_EQ(last.begins_to_fail, tries == 0);
    given_up = !last.dropped.empty();
  }
  EXPECT_EQ(last.dropped.size(), 2u) << "with what waited as long";
  EXPECT_TRUE(last.begins_to_lose);
  EXPECT_GT(now, 22 * 3'600'000);
  EXPECT_LT(tries, 40);
  const auto second = hooks.take_due(now);
  EXPECT_EQ(second->body, "second");
  EXPECT_EQ(hooks.waiting(id), 1);
  EXPECT_EQ(hooks.record(second->id, {now, 200, ""}).lost, 2);
  EXPECT_EQ(hooks.waiting(id), 0);
  hooks.note_change("running", "third", now);
  hooks.remove(id);
  EXPECT_FALSE(hooks.take_due(now));
}

TEST(Webhooks, ADeliveryThatIsAlwaysRefusedHoldsBackTheOthersForSomeTriesOnly) {
  for (const int status : {400, 404, 410, 408, 429, 500, 0}) {
    SCOPED_TRACE(status);
    WebhookBook hooks({});
    hooks.add({});
    hooks.note_change("running", "first", 0);
    hooks.note_change("paused", "second", 0);
    const bool for_good = status == 400 || status == 404 || status == 410;
    int64_t now = 0;
    for (int64_t tries = 1; tries <= WebhookBook::kRefusedTriesMax; ++tries) {
      const auto row = hooks.take_due(now);
      ASSERT_TRUE(row);
      EXPECT_EQ(row->body, "first");
      const auto recorded = hooks.record(row->id, {now, status, "no"});
      EXPECT_EQ(recorded.dropped.size(), for_good && tries == WebhookBook::kRefusedTriesMax ? 1u : 0u);
      now = recorded.row.due_ms;
    }
    EXPECT_EQ(hooks.take_due(now)->body, for_good ? "second" : "first");
  }
}

TEST(Webhooks, ABoundedNumberOfDeliveriesWaitsForAReceiverThatIsGone) {
  WebhookBook hooks({});
  const std::string dead = hooks.add({}).id;
  const auto under_way = [&] {
    hooks.note_change("running", "the oldest", 0);
    return hooks.take_due(0);
  }();
  size_t dropped = 0, told = 0;
  for (size_t i = 0; i < WebhookBook::kWaitingMax + 50; ++i) {
    const auto noted = hooks.note_change("running", std::to_string(i), 0);
    ASSERT_EQ(noted.made.size(), 1u);
    dropped += noted.dropped.size();
    told += noted.begun_to_lose.size();
    for (const int64_t id : noted.dropped) EXPECT_NE(id, under_way->id);
  }
  EXPECT_EQ(hooks.waiting(dead), static_cast<int64_t>(WebhookBook::kWaitingMax));
  EXPECT_EQ(dropped, 51u);
  EXPECT_EQ(told, 1u) << "not for each";
  EXPECT_EQ(hooks.record(under_way->id, {0, 200, ""}).lost, 51);
  EXPECT_EQ(hooks.take_due(0)->body, "51");
  hooks.note_change("running", "one more", 0);
  EXPECT_EQ(hooks.note_change("running", "and one", 0).begun_to_lose.size(), 1u) << "told anew, for it had recovered";
}

TEST_F(WebhookTest, AReceiverThatRefusesCausesTwoEventsAndAThirdWhenItRecovers) {
  receiver_.answer_with(404);
  ask("POST", "/v1/webhooks", {{"url", receiver_.url()}});
  for (const char* job : {"j1", "j2"}) {
    ASSERT_EQ(ask("POST", "/v1/jobs", spec()).status(), 201);
    ask("POST", fmt::format("/v1/jobs/{}/stop", job));
  }
  ASSERT_EQ(waiting(), 2);
  size_t tries = 0;
  turns_until([&] {
    if (const size_t seen = receiver_.requests().size(); seen > tries) {
      tries = seen;
      clock_.ms += 60'000;  // longer than any pause between tries
    }
    return waiting() == 0;
  });
  EXPECT_EQ(tries, 2 * static_cast<size_t>(WebhookBook::kRefusedTriesMax));
  receiver_.answer_with(204);
  ask("POST", "/v1/jobs", spec());
  ask("POST", "/v1/jobs/j3/stop");
  turns_until([&] { return waiting() == 0; });
  std::vector<std::string> kinds;
  const Json page = ask("GET", "/v1/events?limit=1000").json();
  for (const Json& event : page["events"]) {
    const std::string kind = event["kind"];
    if (kind.starts_with("webhook_")) kinds.push_back(kind);
  }
  EXPECT_THAT(kinds, testing::ElementsAre("webhook_created", "webhook_failing", "webhook_given_up", "webhook_recovered"));
}

}  // namespace
}  // namespace holdfast::rendezvous

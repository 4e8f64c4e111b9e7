// One HTTP server, behind which a service's disk is full for a while.
#include "rendezvous/process/service_lives.h"

#include <gmock/gmock.h>

#include <future>

#include "tests/rendezvous/api/service_harness.h"

namespace holdfast::rendezvous {
namespace {

using testing::HasSubstr;
using Json = nlohmann::json;

class ServiceLivesTest : public testing::Test {
 protected:
  enum class Disk : uint8_t { kWell, kFull, kBroken };  // kBroken: an error that is not a database's

  ServiceLivesTest() : folder_(testing::TempDir() + "holdfast-lives-" + std::to_string(getpid())) {
    spdlog::set_level(spdlog::level::off);
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
  }
  ~ServiceLivesTest() override {
    lives_.reset();
    std::filesystem::remove_all(folder_);
  }

  struct Life {
    Life(ServiceLivesTest& test, std::unique_ptr<JobStore> opened)
        : store(std::move(opened)),
          watched(*store, [&test](const StoreMoment& moment) { test.judge(moment); }),
          service(test.options(), test.clock_, watched, [] { return "secret"; }) {}
    std::unique_ptr<JobStore> store;
    WatchedStore watched;
    Service service;
  };
  std::shared_ptr<Service> begin() {
    const auto life = std::make_shared<Life>(*this, open_sqlite_store(folder_ + "/holdfast.sqlite"));
    return {life, &life->service};
  }
  ServiceOptions options() const { return {folder_, "s1", "admin-token", "worker-token", {}, 1}; }
  void judge(const StoreMoment& moment) const {
    if (moment.when != StoreMoment::When::kBeforeCommit) return;
    if (disk_ == Disk::kFull) throw StoreFull("database or disk is full");
    if (disk_ == Disk::kBroken) throw std::logic_error("an invariant is broken");
  }

  HttpResponse ask(const std::string& method, const std::string& path, const std::string& body = "") {
    HttpRequest request;
    request.method = method;
    request.path = path;
    request.headers["authorization"] = "Bearer admin-token";
    request.body = body;
    auto answer = std::make_shared<std::promise<HttpResponse>>();
    auto future = answer->get_future();
    Admission admission = lives_->gate(request);
    if (admission.refusal) {
      answer->set_value(*std::move(admission.refusal));
    } else {
      admission.handler(request, [answer](HttpResponse response) { answer->set_value(std::move(response)); });
    }
    if (future.wait_for(std::chrono::seconds(20)) != std::future_status::ready) {
      ADD_FAILURE() << method << " " << path << " is not answered";
      return {};
    }
    return future.get();
  }
  bool tend_until(const std::function<bool()>& done) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (std::chrono::steady_clock::now() < deadline) {
      tended_ = lives_->tend();
      if (done()) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return false;
  }
  std::string a_job() const {
    const Json spec = {{"train_data_path", "train.bin"}, {"total_steps", 10}};
    return spec.dump();
  }

  std::string folder_;
  HandClock clock_;
  std::atomic<Disk> disk_ = Disk::kWell;
  std::unique_ptr<ServiceLives> lives_;
  bool tended_ = true;
};

TEST_F(ServiceLivesTest, FromTheFirstAnswerOnEverybodyHearsWhyTheServiceStops) {
  lives_ = std::make_unique<ServiceLives>([this] { return begin(); });
  HttpRequest request;
  request.method = "GET";
  request.path = "/v1/jobs";
  request.headers["authorization"] = "Bearer admin-token";
  Admission before = lives_->gate(request);  // its body comes when the service has stopped
  ASSERT_FALSE(before.refusal);
  HttpRequest submission = request;
  submission.method = "POST";
  submission.body = a_job();
  Admission failing = lives_->gate(submission);
  ASSERT_FALSE(failing.refusal);
  std::promise<HttpResponse> asked_again, late;
  disk_ = Disk::kFull;
  failing.handler(submission, [&](const HttpResponse&) {
    Admission again = lives_->gate(request);
    asked_again.set_value(again.refusal ? *again.refusal : HttpResponse{});
  });
  EXPECT_THAT(asked_again.get_future().get().body, HasSubstr("database or disk is full"));
  before.handler(request, [&](HttpResponse response) { late.set_value(std::move(response)); });
  const HttpResponse answer = late.get_future().get();
  EXPECT_EQ(answer.status, 503);
  EXPECT_THAT(answer.body, HasSubstr("database or disk is full"));
}

TEST_F(ServiceLivesTest, AFullDiskIsSaidAndWaitedForAndNothingThatWasNotKeptIsThere) {
  lives_ = std::make_unique<ServiceLives>([this] { return begin(); });
  EXPECT_EQ(ask("GET", "/v1/jobs").status, 200);
  disk_ = Disk::kFull;
  const HttpResponse refused = ask("POST", "/v1/jobs", a_job());
  EXPECT_EQ(refused.status, 503);
  EXPECT_THAT(refused.body, HasSubstr("database or disk is full"));
  ASSERT_TRUE(tend_until([&] { return ask("GET", "/v1/jobs").body.find("cannot keep anything now") != std::string::npos; }));
  EXPECT_THAT(ask("GET", "/readyz").body, HasSubstr("database or disk is full"));
  // A restart would not help, so a probe of the process is answered as healthy.
  const HttpResponse health = ask("GET", "/healthz");
  EXPECT_EQ(health.status, 200);
  EXPECT_EQ(Json::parse(health.body)["status"], "waiting");
  EXPECT_EQ(Json::parse(health.body)["version"], kHoldfastVersion);
  EXPECT_THAT(health.body, HasSubstr("database or disk is full"));
  EXPECT_THAT(ask("GET", "/metrics").body, HasSubstr("\nholdfast_store_writable 0\n"));
  EXPECT_THAT(ask("GET", "/metrics").body, HasSubstr("holdfast_build_info{"));
  HttpRequest probe;
  probe.method = "GET";
  probe.path = "/healthz";
  EXPECT_FALSE(lives_->gate(probe).refusal) << "nor is it refused before its body is read";
  disk_ = Disk::kWell;
  ASSERT_TRUE(tend_until([&] { return ask("GET", "/readyz").status == 200; }));
  EXPECT_TRUE(tended_);
  EXPECT_THAT(ask("GET", "/metrics").body, HasSubstr("\nholdfast_store_writable 1\n"));
  EXPECT_EQ(Json::parse(ask("GET", "/healthz").body)["status"], "ok");
  EXPECT_EQ(Json::parse(ask("GET", "/v1/jobs").body)["jobs"].size(), 0U);
  EXPECT_EQ(ask("POST", "/v1/jobs", a_job()).status, 201);
}

TEST_F(ServiceLivesTest, ARequestWhoseServiceEndedWhileItsBodyCameIsAnswered) {
  lives_ = std::make_unique<ServiceLives>([this] { return begin(); });
  HttpRequest request;
  request.method = "POST";
  request.path = "/v1/jobs";
  request.headers["authorization"] = "Bearer admin-token";
  const Admission admission = lives_->gate(request);
  ASSERT_FALSE(admission.refusal);
  disk_ = Disk::kFull;
  EXPECT_EQ(ask("POST", "/v1/jobs", a_job()).status, 503);
  ASSERT_TRUE(tend_until([&] { return ask("GET", "/v1/jobs").body.find("cannot keep anything now") != std::string::npos; }));
  HttpResponse answer;
  admission.handler(request, [&](HttpResponse response) { answer = std::move(response); });
  EXPECT_EQ(answer.status, 503);
  EXPECT_THAT(answer.body, HasSubstr("cannot keep anything now"));
}

TEST_F(ServiceLivesTest, WhatIsWrongWithTheServiceItselfEndsIt) {
  lives_ = std::make_unique<ServiceLives>([this] { return begin(); });
  disk_ = Disk::kBroken;
  EXPECT_EQ(ask("POST", "/v1/jobs", a_job()).status, 503);
  EXPECT_TRUE(tend_until([&] { return !tended_; }));
  EXPECT_EQ(ask("GET", "/readyz").status, 503);
}

TEST_F(ServiceLivesTest, OneThatStartsOnAFullDiskWaitsForSpace) {
  disk_ = Disk::kFull;
  lives_ = std::make_unique<ServiceLives>([this] { return begin(); });
  EXPECT_EQ(ask("GET", "/v1/jobs").status, 503);
  EXPECT_EQ(ask("GET", "/healthz").status, 200);
  disk_ = Disk::kWell;
  EXPECT_TRUE(tend_until([&] { return ask("GET", "/readyz").status == 200; }));
}

TEST_F(ServiceLivesTest, OneThatNeverWasDoesNotWait) {
  EXPECT_THROW(ServiceLives([]() -> std::shared_ptr<Service> { throw StoreError("no such directory"); }), StoreError);
}

}  // namespace
}  // namespace holdfast::rendezvous

// A Service without HTTP and without a real clock: a test puts requests in, takes turns by hand and reads the answers.
#pragma once

#include <gtest/gtest.h>
#include <spdlog/spdlog.h>

#include <unistd.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <thread>

#include "rendezvous/api/service.h"
#include "rendezvous/store/sqlite/store.h"
#include "rendezvous/store/watched_store.h"

namespace holdfast::rendezvous {

class HandClock : public Clock {
 public:
  int64_t steady_ms() const override { return ms; }
  int64_t wall_ms() const override { return 1'700'000'000'000 + ms; }
  std::atomic<int64_t> ms = 1000;  // other threads read it, too
};

// A reader of a stream; it refuses writes when it is `slow`.
class CollectingStream : public EventStream {
 public:
  bool write(const std::string& chunk) override {
    text += chunk;
    return !slow;
  }
  void close() override { closed = true; }
  void abandon() override { abandoned = true; }
  size_t unread() const override { return 0; }
  bool await_reader(size_t) override { return !slow && !abandoned; }
  std::string text;
  bool slow = false, closed = false, abandoned = false;
};

struct Answer {
  std::optional<HttpResponse> response;
  int status() const { return response ? response->status : 0; }  // 0: no answer yet
  nlohmann::json json() const { return nlohmann::json::parse(response->body); }
};

// An answer that may come from another thread, later.
class Pending {
 public:
  void come(HttpResponse response) {
    answer_.response = std::move(response);
    there_.store(true, std::memory_order_release);
  }
  bool there() const { return there_.load(std::memory_order_acquire); }
  Answer answer() const { return there() ? answer_ : Answer{}; }
  int status() const { return answer().status(); }
  nlohmann::json json() const { return answer().json(); }

 private:
  std::atomic<bool> there_ = false;
  Answer answer_;
};

// A store that counts the reads of its records, and whose service may be deposed.
class CountingStore : public WatchedStore {
 public:
  using WatchedStore::WatchedStore;
  Records& records() override {
    ++record_reads;
    return WatchedStore::records();
  }
  void confirm() override {
    if (is_deposed) throw LostLeadership("another service leads with the database now");
    WatchedStore::confirm();
  }
  int64_t record_reads = 0;
  bool is_deposed = false;
};

class ServiceTest : public testing::Test {
 protected:
  ServiceTest() : folder_(testing::TempDir() + "holdfast-service-" + std::to_string(getpid()) + "-" + unique_name()) {
    spdlog::set_level(spdlog::level::warn);
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
    start();
  }
  ~ServiceTest() override {
    service_.reset();
    store_.reset();
    std::filesystem::remove_all(folder_);
  }

  static std::string unique_name() { return testing::UnitTest::GetInstance()->current_test_info()->name(); }

  void start() { start(open_sqlite_store(folder_ + "/holdfast.sqlite")); }
  void start(std::unique_ptr<JobStore> store) {
    store_ = std::move(store);
    watched_ = std::make_unique<CountingStore>(*store_, [this](const StoreMoment& moment) {
      if (on_moment_) on_moment_(moment);
    });
    ServiceOptions options{folder_, "s1", "admin-token", "worker-token", {}, 1};
    options.data_limit_bytes = data_limit_bytes_;
    options.scale_hook = scale_hook_;
    options.in_plain = true;
    options.term = term_;
    service_ = std::make_unique<Service>(options, clock_, *watched_, [this] { return "secret-" + std::to_string(++secrets_); });
  }
  // Restarts the service as after kill -9: uncommitted rows are gone, and steady times begin anew.
  void restart() {
    service_.reset();
    store_.reset();
    start();
  }

  std::shared_ptr<Pending> send(const std::string& method, const std::string& target, const std::string& body = "",
                                std::map<std::string, std::string> headers = {}, const std::string& token = "admin-token") {
    HttpRequest request;
    request.method = method;
    const size_t mark = target.find('?');
    request.path = target.substr(0, mark);
    for (std::string rest = mark == std::string::npos ? "" : target.substr(mark + 1); !rest.empty();) {
      const std::string pair = rest.substr(0, rest.find('&'));
      rest = pair.size() == rest.size() ? "" : rest.substr(pair.size() + 1);
      request.query[pair.substr(0, pair.find('='))] = pair.substr(std::min(pair.size(), pair.find('=') + 1));
    }
    request.headers = std::move(headers);
    if (!token.empty()) request.headers["authorization"] = "Bearer " + token;
    request.body = body;
    auto answer = std::make_shared<Pending>();
    Admission admission = service_->admit(request);
    if (admission.refusal) {
      answer->come(*std::move(admission.refusal));
    } else {
      admission.handler(request, [answer](HttpResponse response) { answer->come(std::move(response)); });
    }
    return answer;
  }
  // Sends one request and takes one turn.
  Answer ask(const std::string& method, const std::string& target, const nlohmann::json& body = nullptr,
             std::map<std::string, std::string> headers = {}, const std::string& token = "admin-token") {
    const auto answer = send(method, target, body.is_null() ? "" : body.dump(), std::move(headers), token);
    service_->turn();
    return answer->answer();
  }
  Answer ask_until_answered(const std::string& method, const std::string& target, const std::string& body = "") {
    return wait_for(send(method, target, body));
  }
  // Takes turns until an answer comes that the service's other threads make.
  Answer wait_for(const std::shared_ptr<Pending>& answer) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (!answer->there() && std::chrono::steady_clock::now() < deadline) {
      service_->turn();
      std::this_thread::yield();
    }
    return answer->answer();
  }
  void passes(int64_t ms) {
    clock_.ms += ms;
    service_->turn();
  }

  // --- workers, by hand
  Answer registers(const std::string& worker, int life = 1) {
    RegisterRequest request;
    request.name = worker;
    request.incarnation = worker + "-" + std::to_string(life);
    request.node = "node";
    request.address = worker + ":1";
    request.numerics = "avx512";
    return ask("POST", "/v1/workers", request, {}, "worker-token");
  }
  Answer reports(const std::string& worker, Phase phase, int64_t generation = 0, int64_t step = -1, int life = 1,
                 const std::string& job = "j1") {
    WorkerStatus status;
    status.incarnation = worker + "-" + std::to_string(life);
    status.phase = phase;
    status.job = phase == Phase::kIdle ? "" : job;
    status.generation = generation;
    status.step = step;
    status.state_generation = step < 0 ? 0 : generation;
    status.data_digest = phase == Phase::kIdle ? "" : "d1";
    return ask("POST", "/v1/workers/" + worker + "/status", status, {}, "worker-token");
  }
  std::string directive(const std::string& worker, int life = 1) {
    const Answer answer = ask("GET", "/v1/workers/" + worker + "/directive?incarnation=" + worker + "-" + std::to_string(life));
    if (answer.status() != 200) return "status " + std::to_string(answer.status());
    return answer.json()["kind"].get<std::string>() + " " + std::to_string(answer.json()["generation"].get<int>());
  }
  void arrives(const std::string& worker, int life = 1) {
    registers(worker, life);
    reports(worker, Phase::kIdle, 0, -1, life);
  }
  static nlohmann::json spec(const std::string& name = "run") {
    return {{"name", name},    {"train_data_path", "train.bin"},   {"nodes", 2},
            {"batch_size", 1}, {"gradient_accumulation_steps", 2}, {"total_steps", 100}};
  }
  // Brings j1 to train in generation 1 on w1 and w2.
  void begin_training(const nlohmann::json& changed = nlohmann::json::object()) {
    for (const char* worker : {"w1", "w2"}) arrives(worker);
    nlohmann::json request = spec();
    request.update(changed);
    ASSERT_EQ(ask("POST", "/v1/jobs", request).status(), 201);
    for (const char* worker : {"w1", "w2"}) reports(worker, Phase::kPrepared);
    for (const char* worker : {"w1", "w2"}) reports(worker, Phase::kActive, 1, 0);
    ASSERT_EQ(directive("w1"), "join 1");
  }
  Progress progress_to(int64_t step, int64_t first = 1) const {
    Progress progress;
    progress.worker = "w1";
    progress.incarnation = "w1-1";
    progress.generation = 1;
    progress.step = step;
    for (int64_t s = first; s <= step; ++s) {
      StepPoint point;
      point.step = s;
      point.loss = 3.0;
      point.step_s = 0.1;
      point.tokens_digest = "digest" + std::to_string(s);
      progress.points.push_back(point);
    }
    return progress;
  }
  CheckpointRecord record_of(int64_t step) const {
    CheckpointRecord record;
    record.worker = "w1";
    record.incarnation = "w1-1";
    record.generation = 1;
    record.step = step;
    record.state_hash = "hash" + std::to_string(step);
    record.created_at = "2026-01-01T00:00:00Z";
    return record;
  }
  nlohmann::json show(const std::string& job = "j1") { return ask("GET", "/v1/jobs/" + job).json(); }
  std::vector<std::string> event_kinds(const std::string& job = "j1") {
    std::vector<std::string> kinds;
    const nlohmann::json page = ask("GET", "/v1/jobs/" + job + "/events?limit=1000").json();
    for (const auto& event : page["events"]) kinds.push_back(event["kind"]);
    return kinds;
  }

  std::string folder_;
  HandClock clock_;
  int secrets_ = 0;
  int64_t data_limit_bytes_ = 0;      // for the next start(); 0: none
  ScaleHook scale_hook_;              // for the next start()
  int64_t term_ = 0;                  // likewise: of its leadership among several services
  WatchedStore::OnMoment on_moment_;  // if it throws, the service dies
  std::unique_ptr<JobStore> store_;
  std::unique_ptr<CountingStore> watched_;
  std::unique_ptr<Service> service_;
};

}  // namespace holdfast::rendezvous

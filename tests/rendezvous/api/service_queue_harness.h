// The service with a queue of jobs: submits jobs by their fields, and lets workers train and report by hand.
#pragma once

#include <string>

#include "rendezvous/protocol/labels.h"
#include "tests/rendezvous/api/service_harness.h"

namespace holdfast::rendezvous {

class QueueTest : public ServiceTest {
 protected:
  using Json = nlohmann::json;

  std::string submit(Json changes = Json::object()) {
    Json body = spec();
    body.update(changes);
    const Answer answer = ask("POST", "/v1/jobs", body);
    EXPECT_EQ(answer.status(), 201) << (answer.response ? answer.response->body : "");
    return answer.status() == 201 ? answer.json()["id"].get<std::string>() : "";
  }
  Answer submitted(Json changes) {
    Json body = spec();
    body.update(changes);
    return ask("POST", "/v1/jobs", body);
  }
  void arrives_with(const std::string& worker, const Labels& labels, const std::string& device = "cpu") {
    RegisterRequest request;
    request.name = worker;
    request.incarnation = worker + "-1";
    request.address = worker + ":1";
    request.numerics = "avx512";
    request.device = device;
    request.labels = labels;
    EXPECT_EQ(ask("POST", "/v1/workers", request, {}, "worker-token").status(), 200);
    reports(worker, Phase::kIdle);
  }
  std::string state(const std::string& job) { return show(job)["state"]; }
  std::string reason(const std::string& job) { return show(job)["reason"]; }
  Json waits_for(const std::string& job) { return show(job)["waits_for"]; }
  std::string waiting_kind(const std::string& job) {
    const Json waits = waits_for(job);
    return waits.is_null() ? "nothing" : waits["kind"].get<std::string>();
  }
  // Lets the job begin on this worker alone.
  void trains(const std::string& worker, const std::string& job, int64_t generation = 1, int64_t step = 0) {
    reports(worker, Phase::kPrepared, generation - 1, -1, 1, job);
    reports(worker, Phase::kActive, generation, step, 1, job);
  }
  Progress said_by(const std::string& worker, int64_t step, int64_t generation = 1) const {
    Progress progress = progress_to(step, step);
    progress.worker = worker;
    progress.incarnation = worker + "-1";
    progress.generation = generation;
    return progress;
  }
  CheckpointRecord record_by(const std::string& worker, int64_t step, int64_t generation = 1) const {
    CheckpointRecord record = record_of(step);
    record.worker = worker;
    record.incarnation = worker + "-1";
    record.generation = generation;
    return record;
  }
};

}  // namespace holdfast::rendezvous

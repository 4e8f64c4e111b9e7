// Workers that follow their directives at once, with a service that may die at any request.
//
// If a request is not answered, or is answered 503 as a dying service does in these tests, the service is started again and the
// request is repeated. Two rules are checked all the time: a generation has one set of members and one secret for ever, and the
// service never names a generation below one that it has named before.
#pragma once

#include <fmt/format.h>

#include <map>
#include <string>

#include "tests/rendezvous/api/service_harness.h"

namespace holdfast::rendezvous {

class ObedientWorkersTest : public ServiceTest {
 protected:
  using Json = nlohmann::json;

  struct Hand {
    int life = 1;
    WorkerStatus status;
    std::string name;
    std::string incarnation() const { return fmt::format("{}-{}", name, life); }
  };

  void begin_anew() {
    service_.reset();
    watched_.reset();
    store_.reset();
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
    hands_.clear();
    formed_.clear();
    acknowledged_ = newest_ = 0;
    checkpoints_.clear();
    start_until_alive();
  }
  void start_until_alive() {
    try {
      restart();
    } catch (const std::exception&) {  // the service died while it started
      restart();
    }
  }

  // Repeats a request until it is answered, also when the service dies several times.
  Answer insist(const std::string& method, const std::string& target, const Json& body = nullptr,
                const std::map<std::string, std::string>& headers = {}) {
    for (int tries = 0; tries < 10; ++tries) {
      Answer answer = ask(method, target, body, headers);
      if (answer.status() != 0 && answer.status() != 503) return answer;
      start_until_alive();
    }
    ADD_FAILURE() << method << " " << target << " is never answered";
    return Answer{HttpResponse{}};
  }

  void comes(const std::string& name, int life = 1) {
    Hand& hand = hands_[name] = Hand{life, {}, name};
    hand.status.incarnation = hand.incarnation();
    enroll(hand);
  }
  void enroll(const Hand& hand) {
    RegisterRequest request;
    request.name = hand.name;
    request.incarnation = hand.incarnation();
    request.node = "node";
    request.address = hand.name + ":1";
    request.numerics = "avx512";
    EXPECT_EQ(insist("POST", "/v1/workers", request).status(), 200) << hand.incarnation();
  }
  void dies(const std::string& name) {
    WorkerLost lost;
    lost.incarnation = hands_.at(name).incarnation();
    lost.reason = "killed by signal 9 (SIGKILL)";
    hands_.erase(name);
    EXPECT_EQ(insist("POST", "/v1/workers/lost", lost).status(), 204);
  }

  // All workers report, and follow their directives.
  void round(const std::string& job) {
    for (auto& [name, hand] : hands_) {
      if (insist("POST", "/v1/workers/" + name + "/status", hand.status).status() == 404) {
        enroll(hand);
        continue;
      }
      const Answer told = insist("GET", "/v1/workers/" + name + "/directive?incarnation=" + hand.incarnation());
      if (told.status() == 200) obey(hand, told.json().get<Directive>());
    }
    train(job);
    passes(250);
  }

  void obey(Hand& hand, const Directive& told) {
    WorkerStatus& status = hand.status;
    switch (told.kind) {
      case DirectiveKind::kIdle:
      case DirectiveKind::kExit:
        status = WorkerStatus{};
        status.incarnation = hand.incarnation();
        return;
      case DirectiveKind::kPrepare:
        if (status.phase != Phase::kPrepared || status.job_born != told.job_born) take_up(status, told);
        return;
      case DirectiveKind::kFence:
      case DirectiveKind::kYield:
        if (status.phase == Phase::kActive) status.phase = Phase::kPrepared;
        status.generation = std::max(status.generation, told.generation);
        return;
      case DirectiveKind::kJoin:
        return join(status, told);
    }
  }
  static void take_up(WorkerStatus& status, const Directive& told) {
    WorkerStatus fresh;
    fresh.incarnation = status.incarnation;
    status = fresh;
    status.phase = Phase::kPrepared;
    status.job = told.job;
    status.job_born = told.job_born;
    status.data_digest = "d1";
  }
  void join(WorkerStatus& status, const Directive& told) {
    const std::string ring = Json(told)["members"].dump() + told.secret;
    EXPECT_EQ(formed_.try_emplace(told.generation, ring).first->second, ring) << "generation " << told.generation;
    EXPECT_GE(told.generation, newest_) << "generations never go back";
    newest_ = std::max(newest_, told.generation);
    if (status.job.empty()) take_up(status, told);
    if (status.phase == Phase::kActive || told.generation <= status.generation) return;
    status.phase = Phase::kActive;
    status.generation = status.state_generation = told.generation;
    status.step = told.source.step;
    leader_ = told.members[0].worker;
    members_ = told.members;
  }

  // Makes two steps, if all members are in the newest generation; registers a checkpoint at every tenth step.
  void train(const std::string& job) {
    for (const Member& member : members_) {
      const auto hand = hands_.find(member.worker);
      const bool there = hand != hands_.end() && hand->second.incarnation() == member.incarnation &&
                         hand->second.status.phase == Phase::kActive && hand->second.status.generation == newest_;
      if (!there) return;
    }
    if (members_.empty()) return;
    const int64_t step = hands_.at(leader_).status.step + 2;
    for (const Member& member : members_) hands_.at(member.worker).status.step = step;
    tell(job, step);
  }
  void tell(const std::string& job, int64_t step) {
    const Hand& leader = hands_.at(leader_);
    Progress progress;
    progress.worker = leader_;
    progress.incarnation = leader.incarnation();
    progress.generation = newest_;
    progress.step = step;
    for (int64_t s = acknowledged_ + 1; s <= step; ++s) {
      progress.points.emplace_back().step = s;
      progress.points.back().tokens_digest = fmt::format("digest{}", s);
    }
    if (insist("POST", "/v1/jobs/" + job + "/progress", progress).status() != 204) return;
    acknowledged_ = step;
    if (step % 10 != 0) return;
    CheckpointRecord record;
    record.worker = leader_;
    record.incarnation = leader.incarnation();
    record.generation = record.state_generation = newest_;
    record.step = step;
    record.state_hash = fmt::format("hash{}", step);
    if (insist("POST", "/v1/jobs/" + job + "/checkpoints", record).status() == 201) checkpoints_.insert(step);
    progress.points.clear();
    progress.finished = step == total_steps_;
    if (!progress.finished) return;
    EXPECT_EQ(insist("POST", "/v1/jobs/" + job + "/progress", progress).status(), 204);
  }

  std::map<std::string, Hand> hands_;
  std::map<int64_t, std::string> formed_;  // generation -> members and secret
  std::vector<Member> members_;
  std::string leader_;
  int64_t acknowledged_ = 0, newest_ = 0, total_steps_ = 20;
  std::set<int64_t> checkpoints_;  // steps of the checkpoints that the service has registered
};

}  // namespace holdfast::rendezvous

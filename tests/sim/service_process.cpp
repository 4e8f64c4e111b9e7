#include "tests/sim/service_process.h"

#include <algorithm>
#include <utility>

#include "tests/sim/checkpoints.h"
#include "tests/sim/rules/rules.h"

namespace holdfast::sim {

using namespace rendezvous;  // NOLINT(google-build-using-namespace): messages, every line

namespace {

constexpr int64_t kTickMs = 100;

}  // namespace

ServiceProcess::ServiceProcess(Timeline& time, Chance& chance, const Story& story, MemoryStore& store, Rules& rules,
                               const CheckpointDisk& disk)
    : time_(time), chance_(chance), story_(story), store_(store), rules_(rules), disk_(disk) {}

ServiceProcess::~ServiceProcess() = default;

void ServiceProcess::start() {
  if (up()) return;
  const auto secret = [this] { return fmt::format("secret-{}", ++secrets_); };
  coordinator_ = std::make_unique<Coordinator>(store_, time_, secret, LeaseTimes{});
  ++life_;
  frozen_ = turn_planned_ = false;
  death_.reset();
  ticked_ms_ = -1;
  story_.tell("service", "starts");
  compare_with_disk();
  tick_on(life_);
}

// As rendezvous/api/service.cpp compares the database with its data directory.
void ServiceProcess::compare_with_disk() {
  if (!sees_disk_) return;
  for (const auto& [number, job] : coordinator_->jobs()) {
    std::vector<CheckpointRecord> found;
    for (const int64_t step : disk_.steps(job->id)) {
      if (job->checkpoints.contains(step)) continue;
      const CheckpointDisk::Manifest& manifest = *disk_.find(job->id, step);
      CheckpointRecord& record = found.emplace_back();
      record.generation = record.state_generation = manifest.generation;
      record.step = step;
      record.state_hash = manifest.state.hash();
      record.shards = 1;
      rules_.records_given_up(job->id, step);  // its writer may be gone, and with it the reports of the steps before
    }
    coordinator_->restored_database().adopt_checkpoints(
        job->id, found, restored_ ? RestoredDatabase::Adopt::kAll : RestoredDatabase::Adopt::kOfUnknownGenerations);
  }
}

void ServiceProcess::kill(const std::string& how) {
  if (!up()) return;
  story_.tell("service", "is gone: {}", how);
  coordinator_.reset();
  rules_.turn_lost();
  store_.power_loss();
  auto queue = std::exchange(queue_, {});
  auto answers = std::exchange(answers_, {});
  auto polls = std::exchange(polls_, {});
  fresh_.clear();
  commands_.clear();
  for (auto& [_, reply] : queue) reply(Response::lost());
  for (auto& [reply, _] : answers) reply(Response::lost());
  for (OpenPoll& poll : polls) poll.reply(Response::lost());
}

void ServiceProcess::thaw() {
  if (!up() || !frozen_) return;
  frozen_ = false;
  plan_turn(0);
}

void ServiceProcess::take(Request request, OnResponse reply) {
  if (!up()) return reply(Response::lost());
  queue_.emplace_back(std::move(request), std::move(reply));
  plan_turn(chance_.below(3));
}

void ServiceProcess::command(std::function<void(Coordinator&)> what) {
  if (!up()) return;
  commands_.push_back(std::move(what));
  plan_turn(0);
}

void ServiceProcess::plan_turn(int64_t in_ms) {
  if (turn_planned_) return;
  turn_planned_ = true;
  time_.after(in_ms, [this, life = life_] {
    if (life != life_ || !up()) return;
    turn_planned_ = false;
    if (!frozen_) turn();
  });
}

void ServiceProcess::tick_on(int64_t life) {
  if (life != life_ || !up()) return;
  if (!frozen_) turn();
  time_.after(kTickMs, [this, life] { tick_on(life); });
}

void ServiceProcess::turn() {
  try {
    take_turn();
  } catch (const StoreError& error) {
    kill(fmt::format("it could not write: {}", error.what()));
  }
}

void ServiceProcess::take_turn() {
  while (!commands_.empty()) {
    const auto what = std::move(commands_.front());
    commands_.pop_front();
    what(*coordinator_);
  }
  while (!queue_.empty()) {
    const auto [request, reply] = std::move(queue_.front());
    queue_.pop_front();
    bool later = false;
    rules_.before_request(*coordinator_);
    Response response = answer(request, reply, later);
    rules_.after_request(*coordinator_, request, response);
    if (!later) answers_.emplace_back(reply, std::move(response));
  }
  if (ticked_ms_ < 0 || time_.now() >= ticked_ms_ + kTickMs) {
    ticked_ms_ = time_.now();
    coordinator_->tick();
  }
  coordinator_->replan();
  release_polls();
  const auto death = store_.open() ? std::exchange(death_, std::nullopt) : std::nullopt;
  if (death == Death::kBeforeCommit) return kill("killed right before a commit");
  if (death == Death::kDiskFull) store_.fail_next_commit();
  coordinator_->commit();
  restored_ = false;
  rules_.committed(*coordinator_);
  if (death == Death::kAfterCommit) return kill("killed right after a commit, nobody was answered");
  for (auto& [reply, response] : std::exchange(answers_, {})) {
    rules_.answered(response);
    reply(response);
  }
}

Response ServiceProcess::answer(const Request& request, const OnResponse& reply, bool& later) {
  Response response;
  const auto note = [&response](const auto& outcome) {
    if (!outcome) response.refusal = outcome.error();
  };
  if (const auto* registration = std::get_if<RegisterRequest>(&request)) {
    note(coordinator_->register_worker(*registration, fmt::format("service-{}", life_)));
  } else if (const auto* message = std::get_if<StatusMessage>(&request)) {
    const auto outcome = coordinator_->report_status(message->worker, message->status);
    note(outcome);
    if (outcome) response.tag = outcome->directive_tag;
  } else if (const auto* poll = std::get_if<Poll>(&request)) {
    const auto outcome = coordinator_->begin_poll(poll->worker, poll->incarnation);
    note(outcome);
    if (!outcome) return response;
    for (OpenPoll& other : polls_) {
      if (other.poll.worker == poll->worker) other.deadline_ms = time_.now();
    }
    polls_.push_back({*poll, reply, time_.now() + poll->wait_ms});
    fresh_.insert(poll->worker);
    later = true;
  } else if (const auto* lost = std::get_if<WorkerLost>(&request)) {
    note(coordinator_->report_lost(*lost));
  } else {
    return answer_job(std::get<JobMessage>(request));
  }
  return response;
}

Response ServiceProcess::answer_job(const JobMessage& message) {
  struct Dispatch {
    Coordinator& service;
    const std::string& job;
    OrRefusal<void> operator()(const Progress& m) const { return service.record_progress(job, m); }
    OrRefusal<void> operator()(const FaultReport& m) const { return service.report_fault(job, m); }
    OrRefusal<void> operator()(const CheckpointRecord& m) const { return service.register_checkpoint(job, m); }
  };
  Response response;
  const auto outcome = std::visit(Dispatch{*coordinator_, message.job}, message.body);
  if (!outcome) response.refusal = outcome.error();
  return response;
}

void ServiceProcess::release_polls() {
  std::set<std::string> looked_at = coordinator_->take_workers_to_notify();
  looked_at.merge(std::exchange(fresh_, {}));
  std::erase_if(polls_, [&](OpenPoll& open) {
    Response response;
    if (looked_at.contains(open.poll.worker)) {
      response.refusal = coordinator_->refusal_if_ended(open.poll.worker, open.poll.incarnation);
      if (!response.refusal) response.change = coordinator_->news_for(open.poll.worker, open.poll.have);
    }
    if (!response.refusal && !response.change && time_.now() < open.deadline_ms) return false;
    answers_.emplace_back(open.reply, std::move(response));
    return true;
  });
}

}  // namespace holdfast::sim

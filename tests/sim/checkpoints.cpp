#include "tests/sim/checkpoints.h"

#include <algorithm>
#include <utility>

#include "storage/checkpoint.h"
#include "tests/sim/process.h"
#include "tests/sim/rules/rules.h"

namespace holdfast::sim {

using rendezvous::CheckpointRecord;

namespace {

constexpr int64_t kRetryMs = 1000, kPollMs = 50, kReportPatienceMs = 10000, kTimeoutMs = 10000, kNextGenerationMs = 1000;
constexpr int64_t kPartsOfOlderPatienceMs = 10000;

}  // namespace

const CheckpointDisk::Manifest* CheckpointDisk::find(const std::string& job, int64_t step) const {
  const auto of_job = jobs_.find(job);
  if (of_job == jobs_.end()) return nullptr;
  const auto found = of_job->second.find(step);
  return found == of_job->second.end() ? nullptr : &found->second;
}

bool CheckpointDisk::put(const std::string& job, const Manifest& manifest) {
  auto& there = jobs_[job];
  const auto found = there.find(manifest.state.step);
  if (found != there.end() && found->second.generation > manifest.generation) return false;
  there[manifest.state.step] = manifest;
  return true;
}

bool CheckpointDisk::has_part(const std::string& job, int64_t step, const Part& part) const {
  const auto of_job = parts_.find(job);
  if (of_job == parts_.end()) return false;
  const auto of_step = of_job->second.find(step);
  return of_step != of_job->second.end() && of_step->second.contains(part);
}

std::vector<int64_t> CheckpointDisk::steps(const std::string& job) const {
  std::vector<int64_t> steps;
  if (const auto of_job = jobs_.find(job); of_job != jobs_.end()) {
    for (const auto& [step, _] : of_job->second) steps.push_back(step);
  }
  return steps;
}

void Checkpoints::open(const std::string& job, int64_t keep_last) {
  drop();
  job_ = job;
  keep_last_ = keep_last;
}

void Checkpoints::drop() {
  ++life_;
  job_.clear();
  generation_ = 0;
  submitted_ = -1;
  writing_.reset();
  at_work_ = registering_ = false;
  written_.clear();
  newest_registered_.reset();
  registered_.clear();
  refused_.clear();
}

void Checkpoints::enter_generation(int64_t generation) {
  generation_ = generation;
  generation_began_ms_ = around_.time.now();
  submitted_ = -1;
  registered_.clear();
  refused_.clear();
}

bool Checkpoints::submit(const ModelState& state, const Writer& writer) {
  if (submitted_ == state.step) return true;
  if (at_work_) return false;
  writing_ = Write{state, generation_, writer};
  submitted_ = state.step;
  write();
  return true;
}

void Checkpoints::write() {
  at_work_ = true;
  const int64_t ms = around_.chance.between(20, around_.disk.slow ? 4000 : 300);
  process_.later(ms, [this, life = life_] {
    if (life != life_) return;
    at_work_ = false;
    if (around_.disk.failing) {
      around_.story.tell(process_.name(), "cannot write the checkpoint of step {}", writing_->state.step);
      return process_.later(kRetryMs, [this, life] {
        if (life == life_ && !at_work_ && writing_) write();
      });
    }
    Write written = *std::exchange(writing_, std::nullopt);
    if (written.writer.of > 1) {
      around_.disk.put_part(job_, written.state.step, {written.generation, written.state.hash(), written.writer.rank});
      if (written.writer.rank != 0) return remember(written);
      return finish_write(written);
    }
    if (put_manifest(written)) finish_write(written);
  });
}

void Checkpoints::remember(const Write& written) {
  if (written.generation == generation_) registered_[written.state.step] = written.state.hash();
}

bool Checkpoints::has_all_parts(const Write& write) const {
  for (int rank = 0; rank < write.writer.of; ++rank) {
    if (!around_.disk.has_part(job_, write.state.step, {write.generation, write.state.hash(), rank})) return false;
  }
  return true;
}

bool Checkpoints::lacks_parts_for_good(const Write& write) const {
  for (const Write& later : written_) {
    if (later.state.step >= write.state.step && !later.has_manifest) return true;
  }
  return generation_ != write.generation && around_.time.now() - generation_began_ms_ > kPartsOfOlderPatienceMs;
}

bool Checkpoints::put_manifest(Write& write) {
  if (!around_.disk.put(job_, {write.state, write.generation})) {
    refused_[write.state.step] = around_.disk.find(job_, write.state.step)->generation;
    return false;
  }
  around_.story.tell(process_.name(), "has the checkpoint of step {} on disk", write.state.step);
  write.has_manifest = true;
  return true;
}

// One after the other, as they were written.
void Checkpoints::registration_ended() {
  registering_ = false;
  if (written_.empty()) return;
  const Write next = std::move(written_.front());
  written_.pop_front();
  finish_write(next);
}

// Not before all of it is there, nor before the service knows the steps below it, or not soon.
void Checkpoints::finish_write(const Write& finished) {
  if (registering_) return written_.push_back(finished);
  registering_ = true;
  Write written = finished;
  if (!written.has_manifest && !has_all_parts(written)) {
    if (lacks_parts_for_good(written)) {
      around_.story.tell(process_.name(), "gives up the checkpoint of step {}, which lacks parts", written.state.step);
      return registration_ended();
    }
    return process_.later(kPollMs, [this, life = life_, written] {
      if (life != life_) return;
      registering_ = false;
      finish_write(written);
    });
  }
  if (!written.has_manifest && !put_manifest(written)) return registration_ended();
  const auto deadline = around_.time.now() + kReportPatienceMs;
  auto wait = std::make_shared<std::function<void()>>();
  *wait = [this, life = life_, written, deadline, weak = std::weak_ptr(wait)] {
    if (life != life_) return;
    if (!process_.reports().knows(written.state.step) && around_.time.now() < deadline) {
      return process_.later(kPollMs, [again = weak.lock()] { (*again)(); });
    }
    if (!process_.reports().knows(written.state.step)) around_.rules.records_given_up(job_, written.state.step);
    register_record(written, {}, [this, life, written] {
      if (life != life_) return;
      newest_registered_ = written;
      process_.reports().hashed(written.state.step, written.state.hash());
      remember(written);
      auto removed = apply_retention(written.state.step);
      if (!removed.empty()) register_record(written, std::move(removed), [] {});
      registration_ended();
    });
  };
  (*wait)();
}

void Checkpoints::register_record(const Write& written, std::vector<int64_t> removed, std::function<void()> then) {
  CheckpointRecord record;
  record.worker = process_.name();
  record.incarnation = process_.incarnation();
  record.generation = generation_;
  record.state_generation = written.generation;
  record.step = written.state.step;
  record.state_hash = written.state.hash();
  record.shards = 1;
  record.removed_steps = removed;
  const auto heed = [this, life = life_, written, removed, then, sent = generation_](const Response& response) {
    if (life != life_) return;
    if (!response.unreachable && !response.refusal) return then();
    if (response.refusal && response.refusal->code == "stale_state") return registration_ended();
    const int64_t pause = ServiceClient::may_pass(response) || generation_ != sent ? 200 : kNextGenerationMs;
    process_.later(pause, [this, life, written, removed, then] {
      if (life == life_) register_record(written, removed, then);
    });
  };
  process_.client().ask(JobMessage{job_, record}, kTimeoutMs, heed, false);
}

void Checkpoints::register_again() {
  if (newest_registered_ && !registering_) finish_write(*newest_registered_);
}

std::vector<int64_t> Checkpoints::apply_retention(int64_t newest) {
  const auto removed = storage::retention_victims(around_.disk.steps(job_), keep_last_, newest);
  for (const int64_t step : removed) around_.disk.remove(job_, step);
  return removed;
}

void Checkpoints::start(const ModelState& state, const Writer& writer) {
  if (!submit(state, writer)) around_.story.tell(process_.name(), "leaves out the checkpoint of step {}", state.step);
}

void Checkpoints::write_now(const ModelState& state, const Writer& writer, std::function<bool()> given_up,
                            std::function<void(const std::string&)> done) {
  if (given_up()) return done("");
  submit(state, writer);
  if (const auto found = registered_.find(state.step); found != registered_.end()) return done(found->second);
  if (refused_.contains(state.step)) return done("");
  process_.later(kPollMs, [this, state, writer, given_up = std::move(given_up), done = std::move(done)] {
    write_now(state, writer, given_up, done);
  });
}

}  // namespace holdfast::sim

// Tells the membership of one job as a story: inputs by name, effects as lines of text.
//
// A worker here follows its directives at once when `obey` is called, as a healthy one would.
#pragma once

#include <fmt/format.h>

#include <string>
#include <variant>
#include <vector>

#include "rendezvous/membership/decide.h"
#include "rendezvous/text/list_in_words.h"

namespace holdfast::rendezvous {

struct Story {
  JobMembership job;
  Millis now = 1000;
  std::vector<std::string> lines;  // since the last call of told()

  explicit Story(int64_t min_nodes = 1, int64_t max_nodes = 8) {
    job.job = "j1";
    job.spec.name = "story";
    job.spec.train_data_path = "train.bin";
    job.spec.total_steps = 1000;
    job.spec.global_batch_size = 8 * job.spec.batch_size;
    job.min_nodes = min_nodes;
    job.nodes = job.max_nodes = max_nodes;
  }

  static std::string life(const std::string& worker, int number = 1) { return fmt::format("{}-{}", worker, number); }

  void happens(const Input& input) {
    Decision decision = decide(std::move(job), input, now, [] { return std::string(64, 'a'); });
    job = std::move(decision.state);
    for (const Effect& effect : decision.effects) lines.push_back(std::visit([](const auto& e) { return text(e); }, effect));
  }

  void assigned(const std::string& worker, const std::string& numerics = "avx512", int number = 1) {
    happens(WorkerAssigned{{worker, life(worker, number), worker + ":1"}, numerics, job.current.number});
  }
  WorkerStatus status(const std::string& worker, Phase phase, int64_t generation, int64_t step,
                      const std::string& reason = "") {
    const auto found = job.participants.find(worker);
    WorkerStatus status;
    status.incarnation = found == job.participants.end() ? life(worker) : found->second.member.incarnation;
    status.phase = phase;
    status.job = "j1";
    status.generation = generation;
    status.step = step;
    status.state_generation = step < 0 ? 0 : generation;
    status.data_digest = "d1";
    status.data_tokens = 100'001;
    status.reason = reason;
    return status;
  }
  void says(const std::string& worker, Phase phase, int64_t generation = 0, int64_t step = -1, const std::string& reason = "") {
    happens(WorkerReported{worker, status(worker, phase, generation, step, reason)});
  }
  void leaves(const std::string& worker, int64_t step) {
    WorkerStatus leaving = status(worker, Phase::kActive, job.current.number, step);
    leaving.leaving = true;
    happens(WorkerReported{worker, leaving});
  }
  void ready(const std::vector<std::string>& workers) {
    for (const auto& worker : workers) assigned(worker);
    for (const auto& worker : workers) says(worker, Phase::kPreparing);
    for (const auto& worker : workers) says(worker, Phase::kPrepared);
  }
  void all_active(int64_t step) {
    for (const Member& member : std::vector<Member>(job.current.members))
      says(member.worker, Phase::kActive, job.current.number, step);
  }
  // The workers named answer what they are told now, with a state of `step`.
  void stopped(const std::vector<std::string>& workers, int64_t step, const std::string& reason = "") {
    for (const auto& worker : workers) says(worker, Phase::kPrepared, job.current.number, step, reason);
  }
  void progress(int64_t step, const std::string& failure = "", bool finished = false) {
    const Member& first = job.current.members.at(0);
    Progress progress;
    progress.worker = first.worker;
    progress.incarnation = first.incarnation;
    progress.generation = job.current.number;
    progress.step = step;
    for (int64_t s = job.committed_step + 1; s <= step; ++s) progress.points.emplace_back().step = s;
    progress.failure = failure;
    progress.finished = finished;
    happens(ProgressMade{progress});
  }
  void checkpoint(int64_t step, int64_t state_generation = 0, double write_s = 0) {
    CheckpointRecord taken = record(step, state_generation);
    taken.write_s = write_s;
    happens(CheckpointTaken{taken});
  }
  CheckpointRecord record(int64_t step, int64_t state_generation) const {
    const Member& first = job.current.members.at(0);
    CheckpointRecord record;
    record.worker = first.worker;
    record.incarnation = first.incarnation;
    record.generation = job.current.number;
    record.state_generation = state_generation;
    record.step = step;
    record.state_hash = fmt::format("h{}", step);
    return record;
  }
  FaultReport fault(const std::string& worker, int suspect, const std::string& kind = "connection_lost") {
    FaultReport report;
    report.worker = worker;
    report.incarnation = life(worker);
    report.generation = job.current.number;
    report.suspect_rank = suspect;
    report.kind = kind;
    report.detail = "reset by peer";
    return report;
  }
  void passes(Millis ms) {
    now += ms;
    happens(Tick{});
  }

  std::string told_to(const std::string& worker) const {
    const Directive d = directive_for(job, worker);
    return fmt::format("{} {}{}", directive_name(d.kind), d.generation, d.checkpoint ? " with checkpoint" : "");
  }
  std::vector<std::string> told() { return std::exchange(lines, {}); }
  // The lines that begin with `kind`, and forgets all.
  std::vector<std::string> told_of(const std::string& kind) {
    std::vector<std::string> found;
    for (const std::string& line : told()) {
      if (line.starts_with(kind)) found.push_back(line);
    }
    return found;
  }

  static std::string text(const Note& e) { return fmt::format("{}: {}", e.kind, e.message); }
  static std::string text(const Formed& e) {
    std::vector<std::string> names;
    for (const Member& member : e.generation.members) names.push_back(member.worker);
    static constexpr const char* kKinds[] = {"initial", "memory", "checkpoint"};
    return fmt::format("FORM {} {} {} {}", e.generation.number, in_words(names),
                       kKinds[static_cast<int>(e.generation.source.kind)], e.generation.source.step);
  }
  static std::string text(const Outrun& e) { return fmt::format("OUTRUN {}", e.generation.number); }
  static std::string text(const StepsCommitted& e) { return fmt::format("COMMIT {}-{} in {}", e.first, e.last, e.generation); }
  static std::string text(const StepsVoided& e) { return fmt::format("VOID from {} by {}", e.first, e.generation); }
  static std::string text(const Refused& e) { return fmt::format("REFUSE {}", e.worker); }
  static std::string text(const Outlived& e) { return fmt::format("OUTLIVE {} {}", e.worker, e.incarnation); }
  static std::string text(const Freed& e) { return fmt::format("FREE {}", e.worker); }
  static std::string text(const CheckpointUnreadable& e) { return fmt::format("UNREADABLE {}", e.step); }
  static std::string text(const RetryPlanned& e) { return fmt::format("RETRY in {} ms", e.delay_ms); }
};

using Lines = std::vector<std::string>;

// Workers that train at this step; what led to it has been told.
inline Story running(const std::vector<std::string>& workers, int64_t step, int64_t min_nodes = 1) {
  Story story(min_nodes);
  story.ready(workers);
  story.all_active(0);
  if (step > 0) story.progress(step);
  story.told();
  return story;
}

}  // namespace holdfast::rendezvous
